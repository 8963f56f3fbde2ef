// How a block of the small product (linear_small.cu) norms its rows of x into shared memory: with
// the pieces, so with the bits, of launch_rms_norm().
//
// Every block does it for itself: that costs it m k 4 bytes from L2, twice (the second time from L1
// where they fit), and saves a launch.
#pragma once

#include "cuda/linear_epilogue.cuh"
#include "cuda/rms_norm.cuh"

namespace llm::small_linear {

static_assert(kThreads == kNormThreads);

inline constexpr int kLoadsAhead = 4;  // of rows to norm, under way together

__device__ __forceinline__ uint4 zero_vector() { return {0, 0, 0, 0}; }

/// The norm's weights for columns [begin, end): a thread's first four, loaded before the wait for
/// the launch before, as they come from far; the others are brought nearer.
struct NormWeights {
  const float* weight;
  int first;  // column
  uint4 first_four;

  __device__ __forceinline__ NormWeights(const float* weight_, int begin, int end)
      : weight(weight_), first(begin + 4 * static_cast<int>(threadIdx.x)) {
    first_four = first < end ? ptx::load_cached(weight + first) : zero_vector();
    constexpr int kLine = 32;  // floats
    const int behind = begin + 4 * kThreads;
#pragma unroll 1
    for (int k = behind + kLine * static_cast<int>(threadIdx.x); k < end; k += kLine * kThreads) {
      ptx::prefetch_l2(weight + k);
    }
  }

  __device__ __forceinline__ float4 at(int k) const {
    if (k > first) return *reinterpret_cast<const float4*>(weight + k);
    return {__uint_as_float(first_four.x), __uint_as_float(first_four.y),
            __uint_as_float(first_four.z), __uint_as_float(first_four.w)};
  }
};

/// Norms rows [0, m) into shared memory, columns [begin, end) only.
__device__ __forceinline__ void norm_operand(bf16* to, const Params& p, const NormWeights& weights,
                                             int begin, int end) {
  LLM_SHARED(float, warp_sums, [kMaxFusedNormRows][kNormWarps]);
  const NormedRows& in = p.normed;
  const int width = p.weights.k;
  const auto index_of = [&](int r) { return in.row_indices ? in.row_indices[r] : r; };
  if (p.m == 1) {
    const int rows[1] = {index_of(0)};
    sum_squares<1, kLoadsAhead>(warp_sums, in.hidden, rows, 1, width);
  } else {
#pragma unroll 1
    for (int first = 0; first < p.m; first += kLoadsAhead) {
      int rows[kLoadsAhead];
#pragma unroll
      for (int r = 0; r < kLoadsAhead; ++r) rows[r] = index_of(min(first + r, p.m - 1));
      sum_squares<kLoadsAhead, 1>(warp_sums + first, in.hidden, rows, p.m - first, width);
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int r = 0; r < p.m; ++r) {
    const float scale = rms_scale(warp_sums[r], width, in.eps);
    const float* row = in.hidden + int64_t{index_of(r)} * width;
    for (int k = weights.first; k < end; k += 4 * kThreads) {
      *reinterpret_cast<uint2*>(to + r * p.normed_pitch + (k - begin)) =
          normed(*reinterpret_cast<const float4*>(row + k), scale, weights.at(k));
    }
  }
  __syncthreads();
}

}  // namespace llm::small_linear
