#include "model/decoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace llm {
namespace {

constexpr int64_t kRopeAhead = 1024;

int64_t float_bytes(int64_t rows, int64_t columns) {
  return rows * columns * static_cast<int64_t>(sizeof(float));
}

}  // namespace

Decoder::Decoder(ModelConfig config, DecoderWeights weights, Backend& backend,
                 int64_t max_positions)
    : config_(std::move(config)),
      weights_(std::move(weights)),
      backend_(&backend),
      max_positions_(max_positions) {
  if (!backend_->computes()) return;
  inv_freq_ = rope_inv_freq(config_.rope, config_.head_dim);
  rope_cos_ = backend_->allocate(float_bytes(max_positions, config_.head_dim / 2));
  rope_sin_ = backend_->allocate(float_bytes(max_positions, config_.head_dim / 2));
}

void Decoder::fill_rope(int64_t positions) {
  if (!backend_->computes() || positions <= rope_filled_) return;
  const int64_t half = config_.head_dim / 2;
  // Writing them makes a device wait, so not often.
  const int64_t least = backend_->runs_ahead() ? kRopeAhead : 0;
  const int64_t end = std::min(max_positions_, std::max({positions, 2 * rope_filled_, least}));
  std::vector<float> cos;  // [end - rope_filled_, half]
  std::vector<float> sin;
  const float factor = static_cast<float>(config_.rope.attention_factor);
  for (int64_t position = rope_filled_; position < end; ++position) {
    for (int64_t i = 0; i < half; ++i) {
      // The angle is rounded to float32 as in transformers' rotary embedding.
      const float angle = static_cast<float>(position) * inv_freq_[static_cast<size_t>(i)];
      cos.push_back(static_cast<float>(std::cos(static_cast<double>(angle))) * factor);
      sin.push_back(static_cast<float>(std::sin(static_cast<double>(angle))) * factor);
    }
  }
  const int64_t at = float_bytes(rope_filled_, half);
  backend_->write(rope_cos_.data() + at, std::as_bytes(std::span(cos)));
  backend_->write(rope_sin_.data() + at, std::as_bytes(std::span(sin)));
  rope_filled_ = end;
}

KvCacheSpec Decoder::cache_spec(int64_t num_blocks, DType dtype) const {
  return {config_.num_hidden_layers, num_blocks, config_.num_key_value_heads, config_.head_dim,
          dtype};
}

KvCache Decoder::make_cache(int64_t num_blocks, DType dtype) const {
  const KvCacheSpec spec = cache_spec(num_blocks, dtype);
  return {spec, backend_->computes() ? backend_->allocate(spec.total_bytes()) : DeviceMemory()};
}

void Decoder::reserve(int64_t num_rows, int64_t num_logits) {
  if (const int64_t rows = backend_->padded_rows(num_rows); rows > capacity_rows_) {
    capacity_rows_ = 0;
    hidden_ = qkv_ = mixed_ = gated_ = {};  // before there is more
    hidden_ = backend_->allocate(float_bytes(rows, config_.hidden_size));
    qkv_ = backend_->allocate(float_bytes(rows, config_.q_size() + 2 * config_.kv_size()));
    const DType operand = backend_->operand_dtype();
    mixed_ = backend_->allocate(byte_size(operand, {rows, config_.q_size()}));
    gated_ = backend_->allocate(byte_size(operand, {rows, config_.intermediate_size}));
    capacity_rows_ = rows;
  }
  if (const int64_t rows = backend_->padded_rows(num_logits); rows > capacity_logits_) {
    capacity_logits_ = 0;
    logits_ = {};
    logits_ = backend_->allocate(float_bytes(rows, config_.vocab_size));
    capacity_logits_ = rows;
  }
}

Tensor Decoder::forward(const Batch& batch, KvCache& cache) {
  int64_t positions = 0;
  for (const int32_t position : batch.positions) {
    positions = std::max<int64_t>(positions, position + 1);
  }
  LLM_CHECK(positions <= max_positions_, "position {} of {}", positions - 1, max_positions_);
  fill_rope(positions);
  const int64_t tokens = batch.num_tokens();
  reserve(tokens, batch.num_logits());
  Backend& ops = *backend_;
  const Tensor hidden = hidden_.tensor(DType::kF32, {tokens, config_.hidden_size});
  const Tensor qkv = qkv_.tensor(DType::kF32, {tokens, config_.q_size() + 2 * config_.kv_size()});
  const Tensor mixed = mixed_.tensor(ops.operand_dtype(), {tokens, config_.q_size()});
  const Tensor gated = gated_.tensor(ops.operand_dtype(), {tokens, config_.intermediate_size});
  const Tensor logits = logits_.tensor(DType::kF32, {batch.num_logits(), config_.vocab_size});

  ops.begin_step(batch, attention_params(0), cache);
  ops.embed(hidden, weights_.embed_tokens, batch);
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const DecoderLayer& layer = weights_.layers[static_cast<size_t>(i)];
    ops.norm_qkv(qkv, hidden, layer.input_layernorm, layer.qkv_proj, batch, i);
    ops.attention(mixed, qkv, attention_params(i), cache, batch);
    ops.linear_add(hidden, mixed, layer.o_proj, batch, i);
    if (layer.moe) {
      ops.norm_moe(hidden, layer.post_attention_layernorm, *layer.moe, batch, i);
    } else {
      ops.norm_gate_up_silu(gated, hidden, layer.post_attention_layernorm, layer.gate_up_proj,
                            batch, i);
      ops.linear_add(hidden, gated, layer.down_proj, batch, i);
    }
  }
  ops.norm_head(logits, hidden, weights_.norm, weights_.lm_head, batch);
  return logits;
}

AttentionParams Decoder::attention_params(int64_t layer) const {
  const DecoderLayer& weights = weights_.layers[static_cast<size_t>(layer)];
  AttentionParams params;
  params.layer = layer;
  params.num_attention_heads = config_.num_attention_heads;
  params.num_key_value_heads = config_.num_key_value_heads;
  params.head_dim = config_.head_dim;
  params.q_norm = weights.q_norm ? &*weights.q_norm : nullptr;
  params.k_norm = weights.k_norm ? &*weights.k_norm : nullptr;
  params.rope_cos = reinterpret_cast<const float*>(rope_cos_.data());
  params.rope_sin = reinterpret_cast<const float*>(rope_sin_.data());
  params.max_positions = max_positions_;
  return params;
}

}  // namespace llm
