// A whole decode step of a model, made of the kernels' launchers as the backend queues them, with
// weights and caches that the device filled. No checkpoint, no host in between.
#pragma once

#include <string>
#include <vector>

#include "cuda/measure/cached_attention.h"
#include "model/model_config.h"

namespace llm::measure {

/// How a step is queued.
struct StepVariant {
  const char* name;
  bool overlaps;
  bool prefetches;
};

/// The config of that name; with `small`, a tiny one of the same kind.
ModelConfig config_of(const std::string& name, bool small);

/// A product of a layer, or the head.
struct ProductShape {
  const char* name;
  Epilogue epilogue;
  int n;
  int k;

  int64_t weight_bytes() const { return int64_t{2} * n * k; }
};
/// qkv, o, gate_up, down, head.
std::vector<ProductShape> products_of(const ModelConfig& config);

class ModelStep {
 public:
  /// Of so many requests with so many tokens each, the ones being computed included.
  ModelStep(Lab& lab, const ModelConfig& config, int64_t batch, int64_t context);
  static int64_t device_bytes(const ModelConfig& config, int64_t batch, int64_t context);

  /// Embedding, layers, head and the sampling.
  void queue(const StepVariant& variant, cudaStream_t stream);

 private:
  struct Product {
    ProductShape shape;
    const bf16* weight;
    std::byte* scratch;
  };
  void multiply(void* out, const Product& product, const bf16* x, const float* hidden, Queue queue);
  /// Of the o_proj and gate_up_proj of a layer, as far as L2 is to take them.
  void add_next_weights(MemoryRange (&next)[2], int64_t layer) const;

  ModelConfig config_;
  int rows_;
  CachedAttention attention_;
  DeviceMemory weights_;
  DeviceMemory norm_;              // [hidden_size]: all norms' weights
  std::vector<Product> products_;  // four a layer, then the head
  const bf16* table_ = nullptr;
  std::vector<DeviceMemory> scratch_;
  DeviceMemory hidden_, qkv_, attended_, gated_, normed_, logits_;
  DeviceMemory sample_rows_, sampled_, sample_scratch_;
};

}  // namespace llm::measure
