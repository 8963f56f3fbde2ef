// Sizes of the KV cache that kernels and engine share.
#pragma once

#include <cstdint>

namespace llm {

/// Tokens in one block of the KV cache.
inline constexpr int kKvBlockSize = 16;

/// Blocks that hold num_tokens tokens.
constexpr int64_t kv_blocks_for(int64_t num_tokens) {
  return (num_tokens + kKvBlockSize - 1) / kKvBlockSize;
}

/// Dimensions of a head in the cache are padded to a multiple of this, so that they fill vectors.
inline constexpr int64_t kKvLanes = 16;

/// head_dim as the cache stores it.
constexpr int64_t padded_head_dim(int64_t head_dim) {
  return (head_dim + kKvLanes - 1) / kKvLanes * kKvLanes;
}

}  // namespace llm
