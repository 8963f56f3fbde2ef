// Bodies of machine_speed_kernels.h over a vector type of vec_*.h; local to the including object.
#pragma once

#include <cstdint>

#include "backend/cpu/machine_speed_kernels.h"

namespace llm {
namespace {

/// A cache line; the compiler splits it into the vectors that there are.
typedef uint32_t Line __attribute__((vector_size(64), may_alias));

uint32_t read_all(const uint32_t* p, int64_t bytes) {
  constexpr int kLines = 8;  // per turn
  constexpr int kAhead = 16 << 10;
  const char* at = reinterpret_cast<const char*>(p);
  Line sums[4] = {};
  for (const char* end = at + bytes; at < end; at += kLines * sizeof(Line)) {
    for (int i = 0; i < kLines; ++i) {
      __builtin_prefetch(at + kAhead + i * static_cast<int>(sizeof(Line)), 0, 2);
      sums[i % 4] += reinterpret_cast<const Line*>(at)[i];
    }
  }
  const Line sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  uint32_t total = 0;
  for (int i = 0; i < 16; ++i) total += sum[i];
  return total;
}

template <typename V>
void repeat_fma(float* state, int64_t repeats) {
  const auto factor = V::set1(state[0]);
  const auto summand = V::set1(state[1]);
  typename V::F32 acc[kSpeedChains];
  for (auto& a : acc) a = summand;
  // The chain goes through the factor, so that a separate product can't leave the loop.
  for (int64_t i = 0; i < repeats; ++i) {
    for (auto& a : acc) a = V::fma(a, factor, summand);
  }
  auto sum = V::zero();
  for (auto& a : acc) sum = V::add(sum, a);
  float lanes[V::kLanes];
  V::store(lanes, sum);
  state[1] = lanes[0];
}

template <typename V>
void repeat_dot(float* state, int64_t repeats) {
  const auto pairs = V::set1_pair(reinterpret_cast<const uint16_t*>(state));
  typename V::F32 acc[kSpeedChains];
  for (auto& a : acc) a = V::set1(state[1]);
  for (int64_t i = 0; i < repeats; ++i) {
    for (auto& a : acc) a = V::dot(a, pairs, pairs);
  }
  auto sum = V::zero();
  for (auto& a : acc) sum = V::add(sum, a);
  float lanes[V::kLanes];
  V::store(lanes, sum);
  state[1] = lanes[0];
}

}  // namespace
}  // namespace llm
