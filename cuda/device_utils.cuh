// Small helpers that several kernels share: sums over a warp, pairs of BF16 in a register, SiLU.
#pragma once

#include "cuda/ptx.cuh"

namespace llm {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kFullWarp = 0xffffffffu;

/// ceil(a / b) of positive numbers.
template <typename T>
__host__ __device__ constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

/// The sum over a full warp, the same bits in every lane.
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) x += __shfl_xor_sync(kFullWarp, x, mask);
  return x;
}

/// Two floats, rounded to nearest even, as a register of two BF16, the first in the low half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

/// The reverse.
__device__ __forceinline__ float2 unpack_bf16(uint32_t pair) {
  return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
}

/// x / (1 + exp(-x)), with a relative error of about (3 + |x|) 2^-23: its callers round to BF16.
/// Below -87.3, where it is less than 2^-119, it may be 0: __fdividef() divides by no more than
/// 2^126.
__device__ __forceinline__ float silu(float x) {
  constexpr float kLog2E = 1.4426950408889634f;
  return __fdividef(x, 1.0f + ptx::exp2_approx(-kLog2E * x));
}

}  // namespace llm
