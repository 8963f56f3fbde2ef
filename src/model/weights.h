// A decoder's weights in the slots of the forward pass, from a checkpoint or seeded at random.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "backend/linear.h"
#include "base/log.h"
#include "base/tensor.h"
#include "base/thread_pool.h"
#include "io/safetensors.h"
#include "model/model_config.h"

namespace llm {

struct DecoderLayer {
  Norm input_layernorm;
  Linear qkv_proj;  // q_proj, k_proj, v_proj
  std::optional<Norm> q_norm;
  std::optional<Norm> k_norm;
  Linear o_proj;
  Norm post_attention_layernorm;
  Linear gate_up_proj;  // gate_proj, up_proj; nothing here and in down_proj where there is moe
  Linear down_proj;
  std::optional<Moe> moe;
};

struct DecoderWeights {
  Embedding embed_tokens;
  std::vector<DecoderLayer> layers;
  Norm norm;
  Linear lm_head;
  bool tied = false;  // lm_head's weight is embed_tokens'

  /// Bytes of all distinct weights in the form that the kernels read.
  int64_t bytes = 0;
  /// Keeps the memory alive that the slots point into.
  std::vector<std::shared_ptr<const void>> storage;
  /// Matrices point into mapped files, whose pages the system can read again.
  bool mapped = false;
};

/// Packs what is stored in another layout than the kernels read, and puts every tensor where the
/// backend's operations read it, one module after the other. Pages of the files are given back as
/// it goes; where the backend copies, all of the host's memory is.
/// `progress` hears how many bytes are done, unless everything stays where it is.
void place_weights(DecoderWeights& weights, Backend& backend, ThreadPool& pool,
                   const std::function<void(int64_t bytes)>& progress = nullptr);

/// Maps a checkpoint's tensors to the slots. Plain weights stay where they are in the mapped files,
/// quantized ones are left for place_weights() to pack; norms and biases are widened to float32.
/// Refuses (exit code 2) a missing tensor, and a name, dtype or shape other than the config
/// implies, printing expected and actual.
DecoderWeights load_weights(const ModelConfig& config, std::shared_ptr<const Checkpoint> checkpoint,
                            const Log& log);

/// BF16 weights drawn from N(0, 0.02) by a counter-based generator: the same seed gives the same
/// weights with any number of threads.
DecoderWeights random_weights(const ModelConfig& config, uint64_t seed, ThreadPool& pool);

/// Slots with shapes and no memory, for the shape-only backend.
DecoderWeights shape_weights(const ModelConfig& config);

}  // namespace llm
