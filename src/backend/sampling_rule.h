// The arithmetic of a draw, included by the CPU's sampling (sampling.cpp) and by the GPU's kernels
// (cuda/sample.cu), so that both draw the same id from the same logits.
//
// Every sum is one of integers, so its order doesn't matter: the weight of an id is
// exp((logit - largest) / temperature) in units of 2^-40, from float32 operations that IEEE 754
// defines to the last bit. Fused multiply-adds are kept out on both sides: the CPU's compiler is
// told so (Makefile), the GPU's by name of the instruction.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define LLM_RULE __host__ __device__ inline
#else
#define LLM_RULE inline
#endif

namespace llm {

/// What SamplingParams come to, in the units of a draw.
struct DrawRule {
  float octaves = 0;   // log2(e) / temperature, 0 = arg-max
  int32_t top_k = 0;   // 0 = off
  uint64_t top_p = 0;  // in units of 2^-64, 0 = off
  uint64_t min_p = 0;  // least weight of a kept id; at least 1
  uint64_t seed = 0;
};

struct Penalties {
  float repetition = 1;
  float presence = 0;
  float frequency = 0;
};

/// An id that penalties cover: how often it is in the output, 0 if in the prompt only.
struct IdCount {
  int32_t id = 0;
  int32_t count = 0;
};

namespace draw {

// ---- float32 operations that no compiler fuses ----

LLM_RULE float multiply(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

LLM_RULE float add(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

LLM_RULE float divide(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

LLM_RULE uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
LLM_RULE float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

// ---- The order of ids: by logit, then the lower id ----

/// Larger for the larger logit, equal for -0 and +0. 0 is no logit's.
LLM_RULE uint32_t order_key(float logit) {
  const uint32_t bits = logit == 0 ? 0 : bits_of(logit);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/// Larger for what is more probable; no two ids of a row have the same, and none has 0.
LLM_RULE uint64_t rank_of(float logit, int32_t id) {
  return uint64_t{order_key(logit)} << 32 | ~static_cast<uint32_t>(id);
}

LLM_RULE int32_t id_of(uint64_t rank) { return static_cast<int32_t>(~static_cast<uint32_t>(rank)); }

/// +0 for -0.
LLM_RULE float logit_of(uint64_t rank) {
  const uint32_t key = static_cast<uint32_t>(rank >> 32);
  return float_of(key >> 31 ? key & 0x7fffffffu : ~key);
}

// ---- Weights ----

/// The weight of the most probable id is 2^40. Sums stay below 2^63.
constexpr int kWeightBits = 40;
constexpr int64_t kMaxIds = int64_t{1} << 22;  // of a row
constexpr uint64_t kLargestWeight = uint64_t{1} << kWeightBits;

/// 2^f for f in [0, 1], in units of 2^-23, from 2^23 to 2^24, with a relative error of 2^-23.4. No
/// coefficient is negative, so it never falls as f rises.
LLM_RULE uint32_t exp2_fraction(float f) {
  float p = 0x1.b5c5ccp-13f;
  p = add(multiply(p, f), 0x1.4c7492p-10f);
  p = add(multiply(p, f), 0x1.3c4c22p-7f);
  p = add(multiply(p, f), 0x1.c69fb8p-5f);
  p = add(multiply(p, f), 0x1.ebfc36p-3f);
  p = add(multiply(p, f), 0x1.62e43p-1f);
  p = add(multiply(p, f), 1.0f);
  return bits_of(p) - 0x3f000000u;  // 2.0 becomes 2^24
}

/// A weight before it is shifted: fraction 2^(17 - shift).
struct WeightParts {
  uint32_t fraction;
  uint32_t shift;  // at most 63
};

LLM_RULE WeightParts weight_parts(float logit, float largest, float octaves) {
  constexpr float kLeast = -63;
  constexpr float kToInteger = 0x1.8p23f;  // added to an integer, has it in its low bits
  float x = multiply(add(logit, -largest), octaves);
  x = x > kLeast ? x : kLeast;
  const float below = floorf(x);
  return {exp2_fraction(add(x, -below)), bits_of(kToInteger) - bits_of(add(below, kToInteger))};
}

LLM_RULE uint64_t weight_of(WeightParts parts) {
  return (uint64_t{parts.fraction} << (kWeightBits - 23)) >> parts.shift;
}

/// 2^((logit - largest) octaves) in units of 2^-40, rounded down; 0 where that is less, or where
/// the logit is NaN. Never falls as the logit rises. Of exp((logit - largest) / temperature) the
/// relative error is at most 2^-22 (1 + x), where x = (largest - logit) octaves, and one unit.
LLM_RULE uint64_t weight_of(float logit, float largest, float octaves) {
  return weight_of(weight_parts(logit, largest, octaves));
}

/// Quarters of octaves: a larger weight isn't in a lower bin. 0 is in bin 0, as 1 is.
constexpr int kWeightBins = 4 * (kWeightBits + 1);
LLM_RULE int bin_of(uint64_t weight) {
#ifdef __CUDA_ARCH__
  const int zeros = __clzll(static_cast<long long>(weight | 1));
#else
  const int zeros = __builtin_clzll(weight | 1);
#endif
  return 4 * (63 - zeros) + static_cast<int>((weight << zeros >> 61) & 3);
}

/// The high half of the product.
LLM_RULE uint64_t multiply_high(uint64_t a, uint64_t b) {
  const uint64_t a0 = a & 0xffffffffu, a1 = a >> 32;
  const uint64_t b0 = b & 0xffffffffu, b1 = b >> 32;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
  const uint64_t other = a0 * b1 + (middle & 0xffffffffu);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

/// What the weights of the most probable ids must reach: the share top_p of the total, rounded up.
LLM_RULE uint64_t wanted_weight(uint64_t top_p, uint64_t total) {
  return multiply_high(top_p, total) + (top_p * total != 0 ? 1 : 0);
}

// ---- Penalties ----

/// Within the finite numbers, so that no penalty makes an infinity or NaN.
LLM_RULE float finite(float x) {
  constexpr float kMax = 0x1.fffffep127f;
  return x > kMax ? kMax : (x < -kMax ? -kMax : x);
}

/// Minus infinity stays: what is masked isn't brought back.
LLM_RULE float penalised(float logit, int32_t count, const Penalties& p) {
  if (!(logit > -INFINITY)) return logit;
  const float x = finite(logit > 0 ? divide(logit, p.repetition) : multiply(logit, p.repetition));
  if (count == 0) return x;
  const float times = multiply(p.frequency, static_cast<float>(count));
  return finite(add(x, -finite(add(p.presence, times))));
}

// ---- Random numbers: Philox 4x32-10 ----

/// Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011).
LLM_RULE void philox(uint32_t (&counter)[4], uint32_t key0, uint32_t key1) {
  constexpr uint32_t kM0 = 0xD2511F53, kM1 = 0xCD9E8D57;  // multipliers of the two lanes
  constexpr uint32_t kW0 = 0x9E3779B9, kW1 = 0xBB67AE85;  // Weyl increments of the key
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t a = uint64_t{kM0} * counter[0];
    const uint64_t b = uint64_t{kM1} * counter[2];
    counter[0] = static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key0;
    counter[1] = static_cast<uint32_t>(b);
    counter[2] = static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key1;
    counter[3] = static_cast<uint32_t>(a);
    key0 += kW0;
    key1 += kW1;
  }
}

/// A random number of 53 bits.
LLM_RULE uint64_t random_53(uint64_t seed, uint64_t counter) {
  uint32_t words[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  philox(words, static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  return (uint64_t{words[0]} << 32 | words[1]) >> 11;
}

/// floor(total random 2^-53): the draw is the first id, in ascending order, at which the running
/// sum of weights is more than this.
LLM_RULE uint64_t target_of(uint64_t random, uint64_t total) {
  return multiply_high(random << 11, total);
}

}  // namespace draw
}  // namespace llm
