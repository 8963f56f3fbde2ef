// THE forward pass. Qwen3; Qwen2 and Llama are its variants by config.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "base/tensor.h"
#include "model/model_config.h"
#include "model/weights.h"

namespace llm {

class Decoder {
 public:
  /// max_positions bounds the positions that a batch may hold (the context); the backend outlives
  /// the decoder.
  Decoder(ModelConfig config, DecoderWeights weights, Backend& backend, int64_t max_positions);

  const ModelConfig& config() const { return config_; }
  const DecoderWeights& weights() const { return weights_; }
  Backend& backend() const { return *backend_; }
  int64_t max_positions() const { return max_positions_; }

  /// The cache that forward() expects for this model.
  KvCacheSpec cache_spec(int64_t num_blocks, DType dtype) const;

  KvCache make_cache(int64_t num_blocks, DType dtype) const;

  /// Allocates what steps of up to so many rows, with so many rows of logits, need. Larger ones
  /// allocate more on their way.
  void reserve(int64_t num_rows, int64_t num_logits);

  /// One step over the batch's rows. Returns float32 logits [R, vocab_size] in the backend's
  /// memory, valid until the next call.
  Tensor forward(const Batch& batch, KvCache& cache);

 private:
  void fill_rope(int64_t positions);
  AttentionParams attention_params(int64_t layer) const;

  ModelConfig config_;
  DecoderWeights weights_;
  Backend* backend_;
  int64_t max_positions_;
  std::vector<float> inv_freq_;  // [head_dim / 2]
  DeviceMemory rope_cos_;        // [max_positions, head_dim / 2] float32
  DeviceMemory rope_sin_;
  int64_t rope_filled_ = 0;  // positions of the two that hold their values
  int64_t capacity_rows_ = 0;
  int64_t capacity_logits_ = 0;
  DeviceMemory hidden_;  // [T, hidden_size]
  DeviceMemory qkv_;     // [T, q + 2 kv]
  DeviceMemory mixed_;   // [T, q]: attention output
  DeviceMemory gated_;   // [T, intermediate_size]
  DeviceMemory logits_;  // [R, vocab_size]
};

}  // namespace llm
