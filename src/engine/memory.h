// How much memory there is, and how long a context it holds.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/log.h"
#include "model/model_config.h"

namespace llm {

inline constexpr int64_t kUnlimitedMemory = std::numeric_limits<int64_t>::max();

/// Bytes that this process may still use: the least of what the system has available, what its
/// control groups leave it, and its address-space limit; kUnlimitedMemory where none is known.
int64_t available_memory();

/// Most tokens of one sequence, and what decides about it.
struct ContextRequest {
  std::optional<int64_t> ctx = {};  // --ctx
  int64_t prompt_tokens = 0;
  int64_t max_tokens = 0;          // to generate; kNoTokenLimit for no limit
  int64_t kv_bytes_per_token = 0;  // of all layers
  int64_t available_bytes = 0;     // for keys and values
  std::string way_out = {};        // ends the refusal of what doesn't fit
};

/// The context: --ctx, or what the request needs up to the model's maximum and to what fits the
/// memory. Refuses (exit code 2) a --ctx whose keys and values don't fit, with the bytes needed and
/// available, and a prompt that is longer than the context, with both lengths; warns where --ctx
/// goes beyond the model's maximum, which then holds.
int64_t plan_context(const ContextRequest& request, const ModelConfig& config, const Log& log);

/// Tokens that the cache holds over all sequences: for max_num_seqs whole contexts, or what the
/// memory holds if that is less.
int64_t plan_cache_tokens(int64_t context, int64_t max_num_seqs, int64_t kv_bytes_per_token,
                          int64_t available_bytes);

}  // namespace llm
