// For tests of the engine: what is asked of the counting model of 100 ids.
#pragma once

#include <utility>
#include <vector>

#include "engine/engine.h"

namespace llm {

inline Request request(std::vector<int32_t> prompt, int64_t max_tokens) {
  Request r;
  r.prompt_ids = std::move(prompt);
  r.max_tokens = max_tokens;
  r.num_ids = 100;
  return r;
}

inline EngineOptions options(int64_t context, int64_t cache_tokens) {
  return {.scheduler = {.context = context}, .num_cache_tokens = cache_tokens};
}

}  // namespace llm
