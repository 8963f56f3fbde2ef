// What a block of the small product (linear_small.cu) does with its sums: adds those of its warps
// in order, then those of the slices of k in order, and writes the outputs.
//
// With two slices the block that comes last does it: both write their sums to scratch, count
// themselves, and the last adds slice 0 and slice 1 and sets the count back to 0.
#pragma once

#include "cuda/device_utils.cuh"
#include "cuda/kernels.h"

namespace llm::small_linear {

inline constexpr int kWarps = 8;  // each sums every eighth chunk of k
inline constexpr int kThreads = kWarps * kWarpSize;
inline constexpr int kTileRows = 16;    // rows of W in one tensor-core product
inline constexpr int kTileColumns = 8;  // rows of x

struct Params {
  void* out;
  Epilogue epilogue;
  const bf16* x;
  NormedRows normed;  // used if x is null
  int m;
  LinearWeights weights;
  int groups;           // of rows of W: what a block computes at a time
  int slice_k;          // k of one slice (grid.y), a multiple of 64
  int normed_pitch;     // elements from one row of normed x in shared memory to the next
  unsigned* arrivals;   // [groups] slices that have written their sums; 0 before and after
  float* partial_sums;  // [groups, slices, columns, rows]
};

/// The group's first row of W, with gate and up rows of the gate rows. Its kRowTiles tiles are
/// neighbours, or one of gate and the matching one of up rows.
template <int kRowTiles>
__device__ __forceinline__ int first_row(const Params& p, int group) {
  return group * (p.epilogue == Epilogue::kSiluMul ? 1 : kRowTiles) * kTileRows;
}

/// The output of row `row` of the group's kRows rows of W and row `column` of x.
template <int kRows>
struct Output {
  bool inside;
  int n;       // column of out
  int64_t at;  // in out

  __device__ __forceinline__ Output(const Params& p, int group, int row, int column) {
    const bool gated = p.epilogue == Epilogue::kSiluMul;
    const int width = gated ? p.weights.n / 2 : p.weights.n;
    n = first_row<kRows / kTileRows>(p, group) + row;
    at = int64_t{column} * width + n;
    inside = n < width && column < p.m && (!gated || row < kTileRows);
  }

  /// What is added to its sum: bias and residual.
  __device__ __forceinline__ float addend(const Params& p) const {
    float sum = 0;
    if (inside && p.weights.bias) sum = p.weights.bias[n];
    if (inside && p.epilogue == Epilogue::kAdd) sum += static_cast<const float*>(p.out)[at];
    return sum;
  }

  /// `up_sum` is the sum of the matching up row.
  __device__ __forceinline__ void write(const Params& p, float sum, float up_sum) const {
    if (p.epilogue == Epilogue::kSiluMul) {
      const float up = p.weights.bias ? up_sum + p.weights.bias[p.weights.n / 2 + n] : up_sum;
      static_cast<bf16*>(p.out)[at] = __float2bfloat16_rn(silu(sum) * up);
    } else {
      static_cast<float*>(p.out)[at] = sum;
    }
  }
};

/// The warps' sums of kColumns x kRows outputs, in shared memory.
template <int kColumns, int kRows>
struct WarpSums {
  float part[kWarps][kColumns][kRows + 4];  // no two lanes of a store in one bank

  /// Takes over what the tensor cores left in this lane for column tile j and row tile t.
  __device__ __forceinline__ void put(int j, int t, const float (&sums)[4]) {
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = j * kTileColumns + 2 * (lane % 4) + i % 2;
      part[warp][column][t * kTileRows + lane / 4 + 8 * (i / 2)] = sums[i];
    }
  }

  __device__ __forceinline__ float total(int column, int row) const {
    float sum = part[0][column][row];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) sum += part[w][column][row];
    return sum;
  }
};

/// Whether this block is the last of its group's slices; then it sees the others' sums.
__device__ __forceinline__ bool arrives_last(const Params& p, int group) {
  LLM_SHARED(unsigned, arrived_before, [1]);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) arrived_before[0] = atomicAdd(&p.arrivals[group], 1u);
  __syncthreads();
  if (arrived_before[0] + 1 != gridDim.y) return false;
  __threadfence();
  if (threadIdx.x == 0) p.arrivals[group] = 0;
  return true;
}

/// From a gate row to its up row, where there is one.
template <int kRows>
__device__ __forceinline__ int up_row(int row) {
  return kRows > kTileRows && row % kRows < kTileRows ? row + kTileRows : row;
}

/// Where a slice leaves its sums, [columns, rows].
template <int kColumns, int kRows>
__device__ __forceinline__ float* slice_sums(const Params& p, int group, int slice) {
  return p.partial_sums + (int64_t{group} * gridDim.y + slice) * (kColumns * kRows);
}

/// Adds the two slices' sums and writes the group's outputs.
template <int kColumns, int kRows>
__device__ __forceinline__ void merge_slices(const Params& p, int group) {
  const float* slice0 = slice_sums<kColumns, kRows>(p, group, 0);
  const float* slice1 = slice_sums<kColumns, kRows>(p, group, 1);
  for (int o = threadIdx.x; o < p.m * kRows; o += kThreads) {
    const Output<kRows> output(p, group, o % kRows, o / kRows);
    if (!output.inside) continue;
    const int up = up_row<kRows>(o);
    output.write(p, __ldcg(slice0 + o) + __ldcg(slice1 + o) + output.addend(p),
                 __ldcg(slice0 + up) + __ldcg(slice1 + up));
  }
}

/// Writes the outputs of a group, or where k is split this slice's sums. `more` says whether the
/// block goes on to another group.
template <int kColumnTiles, int kRowTiles>
__device__ __forceinline__ void write_group(const Params& p, int group,
                                            const float (&sums)[kRowTiles][kColumnTiles][4],
                                            bool more) {
  constexpr int kRows = kRowTiles * kTileRows;
  constexpr int kAllColumns = kColumnTiles * kTileColumns;
  constexpr int kTilesAtOnce = kColumnTiles < 4 ? kColumnTiles : 4;  // 18 KiB a row tile
  constexpr int kColumns = kTilesAtOnce * kTileColumns;
  constexpr int kPerThread = ceil_div(kColumns * kRows, kThreads);
  using Sums = WarpSums<kColumns, kRows>;
  LLM_SHARED(Sums, warp_sums, [1]);
  const bool split = gridDim.y > 1;

#pragma unroll
  for (int j0 = 0; j0 < kColumnTiles; j0 += kTilesAtOnce) {
    const int first = j0 * kTileColumns;
#pragma unroll
    for (int j = 0; j < kTilesAtOnce; ++j) {
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) warp_sums[0].put(j, t, sums[t][j0 + j]);
    }
    // What is added to the sums is on its way while the block waits for its last warp.
    float addends[kPerThread];
#pragma unroll
    for (int s = 0; s < kPerThread; ++s) {
      const int o = static_cast<int>(threadIdx.x) + s * kThreads;
      addends[s] = split ? 0 : Output<kRows>(p, group, o % kRows, first + o / kRows).addend(p);
    }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < kPerThread; ++s) {
      const int o = static_cast<int>(threadIdx.x) + s * kThreads;
      const int row = o % kRows;
      const int column = o / kRows;
      const Output<kRows> output(p, group, row, first + column);
      if (split && first + column < p.m) {
        slice_sums<kAllColumns, kRows>(p, group, blockIdx.y)[first * kRows + o] =
            warp_sums[0].total(column, row);
      } else if (!split && output.inside) {
        output.write(p, warp_sums[0].total(column, row) + addends[s],
                     warp_sums[0].total(column, up_row<kRows>(row)));
      }
    }
    if (more || j0 + kTilesAtOnce < kColumnTiles) __syncthreads();
  }
  if (split && arrives_last(p, group)) merge_slices<kAllColumns, kRows>(p, group);
}

}  // namespace llm::small_linear
