#include "cuda/measure/products.h"

#include <algorithm>

#include "base/error.h"

namespace llm::measure {
namespace {

/// kSiluMul is for few rows only.
Epilogue plain(Epilogue epilogue) {
  return epilogue == Epilogue::kAdd ? Epilogue::kAdd : Epilogue::kStore;
}

}  // namespace

Products::Products(Lab& lab, int64_t weight_bytes, int64_t operand_elements,
                   int64_t result_elements)
    : lab_(&lab), cublaslt_(CublasLtGemm::create()) {
  weights_ = lab.memory(weight_bytes, Fill::kBF16);
  operand_ = lab.memory(operand_elements * 2, Fill::kBF16);
  hidden_ = lab.memory(operand_elements * 4, Fill::kF32);
  norm_ = lab.memory(operand_elements * 4, Fill::kF32);
  result_ = lab.memory(result_elements * 4, Fill::kF32);
  if (!cublaslt_) lab.note("cuBLASLt is missing: without its rows");
}

int Products::copies(const ProductShape& shape) const {
  return lab_->copies(shape.weight_bytes(), static_cast<int>(std::max<int64_t>(
                                                1, weights_.size() / shape.weight_bytes())));
}

const bf16* Products::weight(const ProductShape& shape, int i) const {
  return reinterpret_cast<const bf16*>(weights_.data() + i * shape.weight_bytes());
}

Case Products::named(const std::string& model, const ProductShape& shape, int m, const char* by,
                     Unit unit) const {
  const double elements = static_cast<double>(shape.n) * shape.k;
  return {fmt::format("{} {}", model, shape.name),
          fmt::format("m={} n={} k={} {}", m, shape.n, shape.k, by),
          unit == Unit::kTflops ? 2 * elements * m : 2 * elements, unit};
}

void Products::time_small(const std::string& model, const ProductShape& shape, int m) {
  const LinearWeights sizes{nullptr, nullptr, shape.n, shape.k};
  std::byte* scratch =
      scratch_.reserve(static_cast<int64_t>(small_linear_scratch_bytes(sizes)), lab_->stream());
  // Counted in by each shape in its own way.
  if (scratch != nullptr) {
    LLM_CUDA(cudaMemsetAsync(scratch, 0, static_cast<size_t>(scratch_.size()), lab_->stream()));
  }
  const SmallOperand x{reinterpret_cast<const bf16*>(operand_.data()), {}};
  lab_->time_graph(named(model, shape, m, "ours", Unit::kGbs), copies(shape), [&](int i) {
    const LinearWeights weights{weight(shape, i), nullptr, shape.n, shape.k};
    launch_small_linear(result_.data(), shape.epilogue, x, m, weights, scratch, lab_->stream());
  });
}

void Products::time_head(const std::string& model, const ProductShape& shape, int m) {
  const LinearWeights sizes{nullptr, nullptr, shape.n, shape.k};
  const bool fused = m <= fused_norm_rows(sizes);
  const NormedRows normed{reinterpret_cast<const float*>(hidden_.data()), nullptr,
                          reinterpret_cast<const float*>(norm_.data()), 1e-6f};
  bf16* x = reinterpret_cast<bf16*>(operand_.data());
  lab_->time_graph(named(model, shape, m, fused ? "norm in it" : "norm before it", Unit::kGbs),
                   copies(shape), [&](int i) {
                     const LinearWeights weights{weight(shape, i), nullptr, shape.n, shape.k};
                     if (!fused) launch_rms_norm(x, normed, m, shape.k, lab_->stream());
                     launch_small_linear(
                         result_.data(), Epilogue::kStore,
                         fused ? SmallOperand{nullptr, normed} : SmallOperand{x, {}}, m, weights,
                         scratch_.data(), lab_->stream());
                   });
}

void Products::time_gemm(const std::string& model, const ProductShape& shape, int m) {
  lab_->time_graph(named(model, shape, m, "ours", Unit::kTflops), 1, [&](int) {
    launch_gemm(reinterpret_cast<float*>(result_.data()), plain(shape.epilogue),
                reinterpret_cast<const bf16*>(operand_.data()), m,
                {weight(shape, 0), nullptr, shape.n, shape.k}, lab_->stream());
  });
}

void Products::time_cublaslt(const std::string& model, const ProductShape& shape, int m,
                             Unit unit) {
  if (!cublaslt_) return;
  const auto run = [&](int i) {
    return cublaslt_->run(reinterpret_cast<float*>(result_.data()), plain(shape.epilogue),
                          reinterpret_cast<const bf16*>(operand_.data()), m,
                          {weight(shape, i), nullptr, shape.n, shape.k}, lab_->stream());
  };
  const Case what = named(model, shape, m, "cuBLASLt", unit);
  if (!run(0)) {
    lab_->note(
        fmt::format("left out: {} {}: it has no way to compute it", what.name, what.parameters));
    return;
  }
  lab_->time_graph(what, unit == Unit::kTflops ? 1 : copies(shape), [&](int i) { run(i); });
}

}  // namespace llm::measure
