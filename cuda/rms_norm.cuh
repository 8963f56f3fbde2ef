// RMSNorm by a block of 256 threads, in pieces: the kernel that only norms (rows.cu) and the matrix
// product that norms its operand on the way (linear_small.cu) call the same ones, so that both get
// the same bits.
//
//   y[i] = bf16(x[i] * scale * weight[i]),  scale = 1 / sqrt(sum(x^2) / width + eps)
//
// Order of the sum: thread t takes x[4 t + 1024 j .. + 3], j = 0, 1, ..., in order; then a
// butterfly over each warp; then warps 0 to 7 in order. No operation is left for the compiler to
// fuse or not.
#pragma once

#include "cuda/device_utils.cuh"

namespace llm {

inline constexpr int kNormThreads = 256;
inline constexpr int kNormWarps = kNormThreads / kWarpSize;

/// This thread's share of the squares of rows[r][width], r < num_rows; the others' are 0. The loads
/// of all rows are under way together.
template <int kRows>
__device__ __forceinline__ void add_squares(float (&sums)[kRows], const float* const (&rows)[kRows],
                                            int num_rows, int width) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) sums[r] = 0;
  for (int i = 4 * static_cast<int>(threadIdx.x); i < width; i += 4 * kNormThreads) {
    float4 v[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r < num_rows) v[r] = *reinterpret_cast<const float4*>(rows[r] + i);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= num_rows) continue;
      sums[r] = __fmaf_rn(v[r].x, v[r].x, sums[r]);
      sums[r] = __fmaf_rn(v[r].y, v[r].y, sums[r]);
      sums[r] = __fmaf_rn(v[r].z, v[r].z, sums[r]);
      sums[r] = __fmaf_rn(v[r].w, v[r].w, sums[r]);
    }
  }
}

/// The row's scale from the sums of its warps.
__device__ __forceinline__ float rms_scale(const float (&warp_sums)[kNormWarps], int width,
                                           float eps) {
  float sum = warp_sums[0];
#pragma unroll
  for (int w = 1; w < kNormWarps; ++w) sum = __fadd_rn(sum, warp_sums[w]);
  return rsqrtf(__fadd_rn(__fdividef(sum, static_cast<float>(width)), eps));
}

/// Four elements of the result.
__device__ __forceinline__ uint2 normed(float4 x, float scale, float4 weight) {
  return {pack_bf16(x.x * scale * weight.x, x.y * scale * weight.y),
          pack_bf16(x.z * scale * weight.z, x.w * scale * weight.w)};
}

}  // namespace llm
