// A stand-in for a model: the next token is always the last one plus one. It remembers each step's
// batch, so that tests can look at what the engine made of its sequences.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/decoder.h"

namespace llm {

/// A Batch that owns its arrays.
struct RecordedBatch {
  std::vector<int32_t> input_ids, positions, slot_mapping, query_start_loc, seq_lens, block_tables,
      logits_indices;
  int64_t max_blocks = 0;
  int64_t num_decode_rows = 0;
};

class CountingBackend : public Backend {
 public:
  std::string_view name() const override { return "counting"; }
  std::string isa() const override { return "none"; }
  ActDType act() const override { return ActDType::kF32; }
  bool computes() const override { return false; }  // so the decoder needs no rotary tables
  bool runs_ahead() const override { return is_ahead; }
  std::span<const SampledId> sampled(SampleTicket ticket) override { return samples_.ids(ticket); }
  std::span<const GeneratedLogprobs> logprobs(SampleTicket ticket) override {
    return samples_.logprobs(ticket);
  }

  std::vector<RecordedBatch> batches;
  /// A row for this token gets NaN instead of logits.
  int32_t poisoned_id = -1;
  /// What runs_ahead() says.
  bool is_ahead = false;

 protected:
  void do_embed(Tensor hidden, const Embedding&, const Batch& batch) override {
    const auto copy = [](std::span<const int32_t> s) {
      return std::vector<int32_t>(s.begin(), s.end());
    };
    batches.push_back({copy(batch.input_ids), copy(batch.positions), copy(batch.slot_mapping),
                       copy(batch.query_start_loc), copy(batch.seq_lens), copy(batch.block_tables),
                       copy(batch.logits_indices), batch.max_blocks, batch.num_decode_rows});
    for (int64_t row = 0; row < batch.num_tokens(); ++row) {
      int32_t& id = batches.back().input_ids[static_cast<size_t>(row)];
      if (id < 0) id = samples_.ids(last_sample_)[static_cast<size_t>(~id)].id;
      hidden.as<float>()[row * hidden.shape[1]] = static_cast<float>(id);
    }
  }
  void do_norm_qkv(Tensor, ConstTensor, const Norm&, const Linear&, const Batch&) override {}
  void do_attention(Tensor, ConstTensor, const AttentionParams&, const KvCache&,
                    const Batch&) override {}
  void do_linear_add(Tensor, ConstTensor, const Linear&, const Batch&) override {}
  void do_norm_gate_up_silu(Tensor, ConstTensor, const Norm&, const Linear&,
                            const Batch&) override {}
  void do_norm_moe(Tensor, const Norm&, const Moe&, const Batch&) override {}
  void do_norm_head(Tensor logits, ConstTensor hidden, const Norm&, const Linear&,
                    const Batch& batch) override {
    const int64_t vocab_size = logits.shape[1];
    for (int64_t i = 0; i < logits.shape[0]; ++i) {
      float* row = logits.as<float>() + i * vocab_size;
      const int64_t source = batch.logits_indices[static_cast<size_t>(i)];
      const int64_t id = static_cast<int64_t>(hidden.as<float>()[source * hidden.shape[1]]);
      const float nan = std::numeric_limits<float>::quiet_NaN();
      std::fill(row, row + vocab_size, id == poisoned_id ? nan : 0.0f);
      row[(id + 1) % vocab_size] += 10.0f;
    }
  }
  void do_sample(SampleTicket ticket, ConstTensor logits,
                 std::span<const SampleRow> rows) override {
    samples_.sample(ticket, logits, rows, pool_);
    last_sample_ = ticket;
  }

 private:
  ThreadPool pool_{1};
  HostSamples samples_;
  SampleTicket last_sample_ = {};
};

/// A decoder of one layer over that backend, with shapes and no weights.
class CountingModel {
 public:
  explicit CountingModel(int64_t max_positions, int64_t vocab_size = 100)
      : decoder_(config(vocab_size), weights(vocab_size), backend, max_positions) {}
  CountingModel(const CountingModel&) = delete;
  CountingModel& operator=(const CountingModel&) = delete;

  CountingBackend backend;
  Decoder& decoder() { return decoder_; }

 private:
  static ModelConfig config(int64_t vocab_size) {
    ModelConfig config;
    config.vocab_size = vocab_size;
    config.hidden_size = 4;
    config.intermediate_size = 8;
    config.num_hidden_layers = 1;
    config.num_attention_heads = 2;
    config.num_key_value_heads = 1;
    config.head_dim = 2;
    config.max_position_embeddings = 4096;
    return config;
  }

  static Linear linear(const std::string& name, std::vector<std::pair<std::string, int64_t>> parts,
                       int64_t k) {
    Linear result{name, {}, k};
    for (const auto& [part, rows] : parts) {
      result.parts.push_back(
          {part, ConstTensor{nullptr, DType::kBF16, {rows, k}}, nullptr, nullptr});
    }
    return result;
  }

  static DecoderWeights weights(int64_t vocab_size) {
    DecoderLayer layer;
    layer.input_layernorm = {"input_layernorm", nullptr, 4};
    layer.qkv_proj = linear("qkv_proj", {{"q_proj", 4}, {"k_proj", 2}, {"v_proj", 2}}, 4);
    layer.o_proj = linear("o_proj", {{"o_proj", 4}}, 4);
    layer.post_attention_layernorm = {"post_attention_layernorm", nullptr, 4};
    layer.gate_up_proj = linear("gate_up_proj", {{"gate_proj", 8}, {"up_proj", 8}}, 4);
    layer.down_proj = linear("down_proj", {{"down_proj", 4}}, 8);
    DecoderWeights weights;
    weights.embed_tokens.weight = ConstTensor{nullptr, DType::kBF16, {vocab_size, 4}};
    weights.layers = {layer};
    weights.norm = {"norm", nullptr, 4};
    weights.lm_head = linear("lm_head", {{"lm_head", vocab_size}}, 4);
    return weights;
  }

  Decoder decoder_;
};

}  // namespace llm
