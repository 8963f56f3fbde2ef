// What choosing the next id from a row of logits gave. Kernels include it too.
#pragma once

#include <cstdint>

namespace llm {

/// Why no id can be chosen from raw logits.
enum class LogitFault : int32_t {
  kNone,
  kNaN,
  kInfinite,     // +inf
  kAllMinusInf,  // among the ids that may be drawn
};

/// A chosen id, or with a fault the first id whose logit has it.
struct SampledId {
  int32_t id = 0;
  LogitFault fault = LogitFault::kNone;
};

}  // namespace llm
