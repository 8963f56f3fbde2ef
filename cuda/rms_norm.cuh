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

/// Writes the warps' sums of squares of rows[0], .. of matrix[.., width], num_rows of them at most
/// kRows, to warp_sums. The loads of all rows, and of kAhead parts of each, are under way together.
template <int kRows, int kAhead>
__device__ __forceinline__ void sum_squares(float (*warp_sums)[kNormWarps], const float* matrix,
                                            const int (&rows)[kRows], int num_rows, int width) {
  constexpr int kPart = 4 * kNormThreads;
  float sums[kRows] = {};
#pragma unroll 1
  for (int i = 4 * static_cast<int>(threadIdx.x); i < width; i += kAhead * kPart) {
    float4 v[kRows][kAhead];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        v[r][j] = {0, 0, 0, 0};  // adds nothing
        if (r < num_rows && i + j * kPart < width) {
          v[r][j] =
              *reinterpret_cast<const float4*>(matrix + int64_t{rows[r]} * width + i + j * kPart);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        sums[r] = __fmaf_rn(v[r][j].x, v[r][j].x, sums[r]);
        sums[r] = __fmaf_rn(v[r][j].y, v[r][j].y, sums[r]);
        sums[r] = __fmaf_rn(v[r][j].z, v[r][j].z, sums[r]);
        sums[r] = __fmaf_rn(v[r][j].w, v[r][j].w, sums[r]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r >= num_rows) break;
    const float sum = warp_sum(sums[r]);
    if (threadIdx.x % kWarpSize == 0) warp_sums[r][threadIdx.x / kWarpSize] = sum;
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
