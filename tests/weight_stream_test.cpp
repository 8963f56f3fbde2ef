// Rows of a batch share one read of the weights: a step of 16 streams as many of them as a step
// of 1. Counted where the kernels take weights from memory.
#include <doctest/doctest.h>

#include <atomic>
#include <utility>
#include <vector>

#include "backend/cpu/matmul.h"
#include "base/cpu_info.h"

namespace llm {
namespace {

// Kernels are plain functions, so what they count has to lie outside of them.
std::atomic<int64_t> weight_bytes_read = 0;
const MatmulKernels* counted_kernels = nullptr;

void count(const WeightRows& w) { weight_bytes_read += w.rows * w.row_bytes; }

template <int kFormat>
void counting_make_panels(uint32_t* panels, const WeightRows& w) {
  count(w);
  counted_kernels->make_panels[kFormat](panels, w);
}

template <int kFormat, int kRows>
void counting_direct(float* out, int64_t stride, const WeightRows& w, const uint32_t* x) {
  count(w);
  counted_kernels->direct[kFormat][kRows](out, stride, w, x);
}

template <int kFormat, int... kRows>
void count_format(MatmulKernels& kernels, std::integer_sequence<int, kRows...>) {
  kernels.make_panels[kFormat] = counting_make_panels<kFormat>;
  ((kernels.direct[kFormat][kRows] = counting_direct<kFormat, kRows>), ...);
}

template <int... kFormats>
MatmulKernels counting(const MatmulKernels& kernels, std::integer_sequence<int, kFormats...>) {
  MatmulKernels all = kernels;
  (count_format<kFormats>(all, std::make_integer_sequence<int, kMaxTileRows>()), ...);
  return all;
}

TEST_CASE("a step of 16 rows streams as many weights as a step of 1") {
  constexpr int64_t kOutputs = 1000, kInputs = 512;
  ThreadPool pool(2);
  for (const Isa isa : supported_isas()) {
    counted_kernels = &matmul_kernels(isa);
    const MatmulKernels kernels =
        counting(*counted_kernels, std::make_integer_sequence<int, kNumWeightFormats>());
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Buffer weights(kOutputs * kInputs * bits_of(dtype) / 8);
      Linear linear;
      linear.name = "weight";
      linear.k = kInputs;
      linear.parts.resize(1);
      linear.parts[0].name = "weight";
      linear.parts[0].weight = ConstTensor(weights.tensor(dtype, {kOutputs, kInputs}));
      for (const int64_t m : {1, 2, 5, 16, 40, 64}) {
        CAPTURE(name_of(isa));
        CAPTURE(name_of(dtype));
        CAPTURE(m);
        const std::vector<float> x(static_cast<size_t>(m * kInputs), 1.0f);
        std::vector<float> y(static_cast<size_t>(m * kOutputs));
        PackedRows rows;
        rows.pack(pool, kernels, x.data(), m, kInputs, ActDType::kBF16);
        weight_bytes_read = 0;
        matmul(pool, kernels, y.data(), kOutputs, rows, linear, Epilogue::kStore);
        CHECK(weight_bytes_read == weights.size());
      }
    }
  }
}

}  // namespace
}  // namespace llm
