// The loops of machine_speed.h, per instruction set.
#pragma once

#include <cstdint>

namespace llm {

struct SpeedKernels {
  /// Reads bytes (a multiple of 512) at p, 64-byte aligned; the result depends on all of them.
  uint32_t (*read)(const uint32_t* p, int64_t bytes);
  /// Repeats kSpeedChains independent multiply-adds of one vector; state[2] holds a factor and a
  /// summand that keep the values in range, and receives a result.
  void (*fma)(float* state, int64_t repeats);
  void (*dot)(float* state, int64_t repeats);  // null where there is no such instruction
  int64_t lanes;                               // floats per vector
};

/// Enough to hide the latency of one operation.
inline constexpr int kSpeedChains = 12;

}  // namespace llm
