// The operations of which a decoder is made. Every public operation checks its shapes once,
// reports its stages to the observer, and calls the backend's own do_*.
//
// The layer that an operation belongs to serves only its report.
//
// Rows are flat: T tokens of all sequences, never padded. Hidden states, q/k/v and logits are
// float32; what a matrix product rounds its operand to is the backend's `--act`.
//
// Operands, results and caches lie where the backend computes. Only what to_host() returns may be
// read by others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/batch.h"
#include "backend/device_memory.h"
#include "backend/linear.h"
#include "backend/observer.h"
#include "backend/samples.h"
#include "base/tensor.h"

namespace llm {

/// What activations are rounded to before a matrix product.
enum class ActDType { kF32, kBF16 };

/// "f32", "bf16".
std::string_view name_of(ActDType act);

/// Attention of one layer.
struct AttentionParams {
  int64_t layer = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  const Norm* q_norm = nullptr;  // over head_dim, before the rotation; or none
  const Norm* k_norm = nullptr;
  /// cos and sin of every position: [max_positions, head_dim / 2], attention factor applied.
  /// Pair i of a head is (x[i], x[i + head_dim / 2]), as Hugging Face's rotate_half has it.
  const float* rope_cos = nullptr;
  const float* rope_sin = nullptr;
  int64_t max_positions = 0;

  int64_t q_size() const { return num_attention_heads * head_dim; }
  int64_t kv_size() const { return num_key_value_heads * head_dim; }
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// "cpu", "cuda", "shape".
  virtual std::string_view name() const = 0;
  /// The instruction set or device architecture in use, for reports.
  virtual std::string isa() const = 0;
  virtual ActDType act() const = 0;
  /// The name of the device, for reports; empty: the CPU.
  virtual std::string hardware() const { return {}; }
  /// Whether a row's results depend on nothing but its own sequence, however prompts are cut.
  virtual bool is_invariant() const { return true; }
  /// False where no arithmetic is done and outputs hold nothing.
  virtual bool computes() const { return true; }
  /// What attention() and norm_gate_up_silu() write, and linear_add() reads.
  virtual DType operand_dtype() const { return DType::kF32; }

  /// Not owned; null for none. Set between steps only.
  void set_observer(Observer* observer) { observer_ = observer; }

  // ---- Memory ----

  /// Zero-filled memory for operands, results and caches. Throws Error (exit code 1) when there
  /// isn't enough.
  virtual DeviceMemory allocate(int64_t bytes) { return host_memory(bytes); }
  /// Copies bytes of the host to where the backend computes.
  virtual void write(std::byte* to, std::span<const std::byte> from);
  /// The tensor as the host can read it, complete; valid until the next call.
  virtual ConstTensor to_host(ConstTensor tensor) { return tensor; }

  // ---- Weights: put where the operations read them, for as long as the backend lives. By default
  // they stay where they are. ----

  virtual void place(Embedding&) {}
  virtual void place(Norm&) {}
  virtual void place(Linear&) {}
  /// True where place() copies, so that the weights it was given may go after finish().
  virtual bool copies_weights() const { return false; }
  /// Waits until all work that was asked for is done.
  virtual void finish() {}
  /// Rows that operands and results of a step need room for, if the step has `rows`.
  virtual int64_t padded_rows(int64_t rows) const { return rows; }

  // ---- One step: begin_step(), then the operations in the order of the forward pass ----

  /// params: what attention has in common in all layers.
  void begin_step(const Batch& batch, const AttentionParams& params, const KvCache& cache);

  /// hidden[T, H] = table[input_ids].
  void embed(Tensor hidden, const Embedding& table, const Batch& batch);

  /// qkv[T, n] = linear(rms_norm(hidden[T, H])).
  void norm_qkv(Tensor qkv, ConstTensor hidden, const Norm& norm, const Linear& linear,
                const Batch& batch, int64_t layer);

  /// Per head: q/k norm, rotation, append of k and v to the cache, causal attention over the
  /// sequence's cached tokens. qkv[T, q + 2 kv], out[T, q].
  void attention(Tensor out, ConstTensor qkv, const AttentionParams& params, const KvCache& cache,
                 const Batch& batch);

  /// hidden[T, n] += linear(x[T, k]).
  void linear_add(Tensor hidden, ConstTensor x, const Linear& linear, const Batch& batch,
                  int64_t layer);

  /// out[T, I] = silu(gate) * up, where [gate, up] = linear(rms_norm(hidden)); linear has the two
  /// parts gate_proj and up_proj of I rows each.
  void norm_gate_up_silu(Tensor out, ConstTensor hidden, const Norm& norm, const Linear& linear,
                         const Batch& batch, int64_t layer);

  /// hidden[T, H] += moe(rms_norm(hidden)). The experts are summed in ascending order.
  void norm_moe(Tensor hidden, const Norm& norm, const Moe& moe, const Batch& batch, int64_t layer);

  /// logits[R, V] = linear(rms_norm(hidden[logits_indices])).
  void norm_head(Tensor logits, ConstTensor hidden, const Norm& norm, const Linear& linear,
                 const Batch& batch);

  /// Chooses the next id for rows of logits[R, V]. Where the backend runs ahead, the next batch may
  /// name the i-th of them as an input before they are read: as input id ~i.
  SampleTicket sample(ConstTensor logits, std::span<const SampleRow> rows);
  /// The ids that a sample() chose, in the order of its rows; the two latest can be read. Waits for
  /// the work up to there. Valid until the next call.
  virtual std::span<const SampledId> sampled(SampleTicket ticket) = 0;
  /// The same of the log-probabilities that its rows asked for; empty ones for the others.
  virtual std::span<const GeneratedLogprobs> logprobs(SampleTicket ticket) = 0;
  /// Whether work goes on while the host does something else, so that it pays to ask for a step
  /// before the last one's ids are read.
  virtual bool runs_ahead() const { return false; }

 protected:
  /// Takes what the batch says to where the backend computes.
  virtual void do_begin_step(const Batch&, const AttentionParams&, const KvCache&) {}
  virtual void do_embed(Tensor hidden, const Embedding& table, const Batch& batch) = 0;
  virtual void do_norm_qkv(Tensor qkv, ConstTensor hidden, const Norm& norm, const Linear& linear,
                           const Batch& batch) = 0;
  virtual void do_attention(Tensor out, ConstTensor qkv, const AttentionParams& params,
                            const KvCache& cache, const Batch& batch) = 0;
  virtual void do_linear_add(Tensor hidden, ConstTensor x, const Linear& linear,
                             const Batch& batch) = 0;
  virtual void do_norm_gate_up_silu(Tensor out, ConstTensor hidden, const Norm& norm,
                                    const Linear& linear, const Batch& batch) = 0;
  virtual void do_norm_moe(Tensor hidden, const Norm& norm, const Moe& moe, const Batch& batch) = 0;
  virtual void do_norm_head(Tensor logits, ConstTensor hidden, const Norm& norm,
                            const Linear& linear, const Batch& batch) = 0;
  virtual void do_sample(SampleTicket ticket, ConstTensor logits,
                         std::span<const SampleRow> rows) = 0;
  /// Whether someone observes each operation on its own.
  bool is_observed() const { return observer_ != nullptr; }

 private:
  template <typename MakeStage, typename Run>
  void observed(MakeStage make_stage, ConstTensor output, Run run);

  Observer* observer_ = nullptr;
  SampleTicket last_ticket_ = {};
  int64_t num_sampled_ = 0;  // by the last sample()
};

}  // namespace llm
