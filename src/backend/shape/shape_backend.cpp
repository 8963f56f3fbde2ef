#include "backend/shape/shape_backend.h"

namespace llm {
namespace {

class ShapeBackend : public Backend {
 public:
  std::string_view name() const override { return "shape"; }
  std::string isa() const override { return "none"; }
  ActDType act() const override { return ActDType::kBF16; }
  bool computes() const override { return false; }
  std::span<const SampledId> sampled(SampleTicket ticket) override { return samples_.ids(ticket); }
  std::span<const GeneratedLogprobs> logprobs(SampleTicket ticket) override {
    return samples_.logprobs(ticket);
  }

 protected:
  void do_embed(Tensor, const Embedding&, const Batch&) override {}
  void do_norm_qkv(Tensor, ConstTensor, const Norm&, const Linear&, const Batch&) override {}
  void do_attention(Tensor, ConstTensor, const AttentionParams&, const KvCache&,
                    const Batch&) override {}
  void do_linear_add(Tensor, ConstTensor, const Linear&, const Batch&) override {}
  void do_norm_gate_up_silu(Tensor, ConstTensor, const Norm&, const Linear&,
                            const Batch&) override {}
  void do_norm_moe(Tensor, const Norm&, const Moe&, const Batch&) override {}
  void do_norm_head(Tensor, ConstTensor, const Norm&, const Linear&, const Batch&) override {}
  /// There are no numbers to choose by: every row gets id 0.
  void do_sample(SampleTicket ticket, ConstTensor, std::span<const SampleRow> rows) override {
    samples_.assign(ticket, rows.size());
  }

 private:
  HostSamples samples_;
};

}  // namespace

std::unique_ptr<Backend> make_shape_backend() { return std::make_unique<ShapeBackend>(); }

}  // namespace llm
