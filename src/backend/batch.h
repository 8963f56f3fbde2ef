// One forward step's rows, and the cache they read and write.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "backend/device_memory.h"
#include "backend/kv_layout.h"
#include "base/tensor.h"

namespace llm {

/// Rows of one step, flat over all sequences ("ragged"): T tokens of B sequences, sequence by
/// sequence. Sequences that decode or verify come first.
struct Batch {
  std::span<const int32_t> input_ids;        // [T]
  std::span<const int32_t> positions;        // [T] place of the token in its sequence
  std::span<const int32_t> slot_mapping;     // [T] block * kKvBlockSize + offset; -1 = padding
  std::span<const int32_t> query_start_loc;  // [B + 1] first row of each sequence
  std::span<const int32_t> seq_lens;         // [B] tokens in the cache after this step
  std::span<const int32_t> block_tables;     // [B, max_blocks] block ids, row-major
  int64_t max_blocks = 0;
  std::span<const int32_t> logits_indices;  // [R] rows whose logits are wanted, ascending
  int64_t num_decode_rows = 0;              // rows of the decoding sequences, at the front

  int64_t num_tokens() const { return static_cast<int64_t>(input_ids.size()); }
  int64_t num_seqs() const { return static_cast<int64_t>(seq_lens.size()); }
  int64_t num_logits() const { return static_cast<int64_t>(logits_indices.size()); }
};

/// Keys and values of one layer: blocks in the backend's own order, which only it interprets.
struct KvLayer {
  std::byte* k = nullptr;
  std::byte* v = nullptr;
};

/// Element types that a cache can have. The 8-bit ones have a float32 scale per token and head.
inline constexpr DType kKvDTypes[] = {DType::kBF16, DType::kF32, DType::kF8E4M3, DType::kI8};

/// As --kv-dtype spells it: "bf16", "f32", "fp8", "int8".
std::string_view kv_dtype_name(DType dtype);

/// Shape of the cache of one model.
struct KvCacheSpec {
  int64_t num_layers = 0;
  int64_t num_blocks = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  DType dtype = DType::kBF16;  // one of kKvDTypes

  bool has_scales() const { return bits_of(dtype) == 8; }
  /// Bytes of the elements of one head's keys (or values) in a block; the scales come after them.
  int64_t element_bytes() const {
    return kKvBlockSize * padded_head_dim(head_dim) * bits_of(dtype) / 8;
  }
  int64_t head_bytes() const {
    return element_bytes() +
           (has_scales() ? kKvBlockSize * static_cast<int64_t>(sizeof(float)) : 0);
  }
  /// Bytes of the keys (or the values) of one layer's block.
  int64_t block_bytes() const { return num_key_value_heads * head_bytes(); }
  int64_t total_bytes() const { return 2 * num_layers * num_blocks * block_bytes(); }
};

/// The cache's memory.
class KvCache {
 public:
  /// A backend that doesn't compute needs no memory of it.
  KvCache(const KvCacheSpec& spec, DeviceMemory memory) : spec_(spec), memory_(std::move(memory)) {}
  explicit KvCache(const KvCacheSpec& spec) : KvCache(spec, host_memory(spec.total_bytes())) {}

  const KvCacheSpec& spec() const { return spec_; }
  KvLayer layer(int64_t i) const {
    const int64_t plane = spec_.num_blocks * spec_.block_bytes();
    std::byte* base = memory_.data() + 2 * i * plane;
    return {base, base + plane};
  }

 private:
  KvCacheSpec spec_;
  DeviceMemory memory_;
};

}  // namespace llm
