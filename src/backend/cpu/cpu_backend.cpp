#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <string>

#include "backend/cpu/attention.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/moe.h"
#include "backend/cpu/row_kernels.h"

namespace llm {
namespace {

// Rows of a norm or a gather that one task takes.
constexpr int64_t kRowsPerTask = 8;

class CpuBackend : public Backend {
 public:
  CpuBackend(ThreadPool& pool, ActDType act, Isa isa)
      : pool_(&pool),
        act_(act),
        isa_(isa),
        rows_(&row_kernels(isa)),
        matmul_(&matmul_kernels(isa)),
        attention_(pool, *rows_),
        moe_(pool, *matmul_, act) {}

  std::string_view name() const override { return "cpu"; }
  std::string isa() const override { return std::string(name_of(isa_)); }
  ActDType act() const override { return act_; }
  std::span<const SampledId> sampled(SampleTicket ticket) override { return samples_.ids(ticket); }
  std::span<const GeneratedLogprobs> logprobs(SampleTicket ticket) override {
    return samples_.logprobs(ticket);
  }

 protected:
  void do_embed(Tensor hidden, const Embedding& table, const Batch& batch) override {
    const int64_t width = table.weight.cols();
    for_rows(batch.num_tokens(), [&](int64_t row) {
      float* to = hidden.as<float>() + row * width;
      const int64_t id = batch.input_ids[static_cast<size_t>(row)];
      if (table.weight.is_packed()) {
        unpack_row(to, table.weight.packed(), id);
      } else {
        const ConstTensor& plain = table.weight.plain();
        widen(to, plain.data + id * table.weight.row_bytes(), plain.dtype, width);
      }
    });
  }

  void do_norm_qkv(Tensor qkv, ConstTensor hidden, const Norm& norm, const Linear& linear,
                   const Batch& batch) override {
    pack_normed(hidden.as<float>(), norm, batch.num_tokens(), [](int64_t row) { return row; });
    matmul(*pool_, *matmul_, qkv.as<float>(), linear.n(), packed_, linear, Epilogue::kStore);
  }

  void do_attention(Tensor out, ConstTensor qkv, const AttentionParams& params,
                    const KvCache& cache, const Batch& batch) override {
    attention_.run(out.as<float>(), qkv.as<float>(), params, cache, batch);
  }

  void do_linear_add(Tensor hidden, ConstTensor x, const Linear& linear,
                     const Batch& batch) override {
    packed_.pack(*pool_, *matmul_, x.as<float>(), batch.num_tokens(), linear.k, act_);
    matmul(*pool_, *matmul_, hidden.as<float>(), linear.n(), packed_, linear, Epilogue::kAdd);
  }

  void do_norm_gate_up_silu(Tensor out, ConstTensor hidden, const Norm& norm, const Linear& linear,
                            const Batch& batch) override {
    pack_normed(hidden.as<float>(), norm, batch.num_tokens(), [](int64_t row) { return row; });
    matmul(*pool_, *matmul_, out.as<float>(), linear.parts[0].rows(), packed_, linear,
           Epilogue::kSiluMul);
  }

  void do_norm_moe(Tensor hidden, const Norm& norm, const Moe& moe, const Batch& batch) override {
    const int64_t rows = batch.num_tokens();
    const float* normed =
        normed_rows(hidden.as<float>(), norm, rows, [](int64_t row) { return row; });
    moe_.run(hidden.as<float>(), normed, rows, moe);
  }

  void do_norm_head(Tensor logits, ConstTensor hidden, const Norm& norm, const Linear& linear,
                    const Batch& batch) override {
    if (batch.num_logits() == 0) return;
    pack_normed(hidden.as<float>(), norm, batch.num_logits(), [&](int64_t row) {
      return int64_t{batch.logits_indices[static_cast<size_t>(row)]};
    });
    matmul(*pool_, *matmul_, logits.as<float>(), linear.n(), packed_, linear, Epilogue::kStore);
  }

  void do_sample(SampleTicket ticket, ConstTensor logits,
                 std::span<const SampleRow> rows) override {
    samples_.sample(ticket, logits, rows, *pool_);
  }

 private:
  template <typename PerRow>
  void for_rows(int64_t count, PerRow per_row) {
    pool_->parallel_for((count + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task, int) {
      const int64_t end = std::min(count, (task + 1) * kRowsPerTask);
      for (int64_t row = task * kRowsPerTask; row < end; ++row) per_row(row);
    });
  }

  /// rms_norm of the rows hidden[row_of(0 .. count)], valid until the next call.
  template <typename RowOf>
  const float* normed_rows(const float* hidden, const Norm& norm, int64_t count, RowOf row_of) {
    const int64_t bytes = count * norm.size * static_cast<int64_t>(sizeof(float));
    if (normed_.size() < bytes) normed_ = Buffer(bytes);
    float* normed = reinterpret_cast<float*>(normed_.data());
    for_rows(count, [&](int64_t row) {
      rows_->rms_norm(normed + row * norm.size, hidden + row_of(row) * norm.size, norm.weight,
                      norm.size, norm.eps);
    });
    return normed;
  }

  /// packed_ = those rows.
  template <typename RowOf>
  void pack_normed(const float* hidden, const Norm& norm, int64_t count, RowOf row_of) {
    const float* normed = normed_rows(hidden, norm, count, row_of);
    packed_.pack(*pool_, *matmul_, normed, count, norm.size, act_);
  }

  ThreadPool* pool_;
  ActDType act_;
  Isa isa_;
  const RowKernels* rows_;
  const MatmulKernels* matmul_;
  CpuAttention attention_;
  CpuMoe moe_;
  HostSamples samples_;
  Buffer normed_;
  PackedRows packed_;
};

}  // namespace

ActDType default_act(Isa isa) { return isa == Isa::kAvx512Bf16 ? ActDType::kBF16 : ActDType::kF32; }

std::unique_ptr<Backend> make_cpu_backend(ThreadPool& pool, ActDType act, Isa isa) {
  return std::make_unique<CpuBackend>(pool, act, isa);
}

}  // namespace llm
