// Attention as a step of the backend does it: a cache full of random keys and values, and the
// step's arrays as StepArrays makes them.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/batch.h"
#include "cuda/measure/lab.h"
#include "cuda/step_arrays.h"

namespace llm::measure {

struct AttentionShape {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  KvType kv_type = KvType::kBF16;
  int layers = 1;  // caches, which layers or repetitions use in turn

  int qkv_width() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
  int out_width() const { return num_heads * head_dim; }
  /// Of one layer, for the keys and values of so many tokens, whole blocks of them.
  int64_t layer_bytes(int64_t seqs, int64_t context) const;
  /// Keys and values, without the scales of 8-bit types.
  double element_bytes(int64_t tokens) const;
};

/// How the rows of a step are cut.
enum class Rows { kDecode, kPrompt };  // the last token of each sequence, or all tokens

class CachedAttention {
 public:
  CachedAttention(Lab& lab, const AttentionShape& shape, int64_t seqs, int64_t context, Rows rows);

  const StepArrays& arrays() const { return arrays_; }
  int rows() const { return static_cast<int>(arrays_.shape.rows); }

  /// Of the sequences' last tokens. next: what is brought into L2 on the way, or nothing.
  void decode(int layer, bf16* out, const float* qkv, const MemoryRange (&next)[2], Queue queue);
  /// What prompts do before and in their attention.
  void append_prompt(int layer, const float* qkv, Queue queue);
  void attend_prompt(int layer, bf16* out, Queue queue);

 private:
  AttentionArgs args(int layer, bf16* out, const float* qkv) const;

  AttentionShape shape_;
  int64_t plane_bytes_ = 0;
  KvCacheSpec spec_;
  StepArrays arrays_;
  DeviceMemory cache_;
  DeviceMemory norms_;  // [2, head_dim]
  DeviceMemory rope_;   // [2, context, head_dim / 2]
  DeviceMemory queries_;
  DeviceMemory scratch_;
  int64_t context_ = 0;
  int tiles_at_once_ = 0;
};

}  // namespace llm::measure
