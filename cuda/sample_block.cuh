// What the sampling kernels (sample.cu, logprobs.cu) have in common: a row of logits is split into
// slices, each block leaves what its slice has, and the block that comes last finishes the row.
// Ids are compared by their rank (draw::rank_of()), so nothing here depends on an order.
#pragma once

#include <climits>

#include "backend/sampling_rule.h"
#include "cuda/device_utils.cuh"
#include "cuda/kernels.h"

namespace llm::sample {

inline constexpr int kThreads = 512;
inline constexpr int kWarps = kThreads / kWarpSize;
inline constexpr int kPerThread = 8;
inline constexpr int kSlice = kThreads * kPerThread;  // ids of one block
/// Most ids of a slice that select_top() finds.
inline constexpr int kMaxTop = 64;

/// Slices of a row.
__host__ __device__ inline int num_slices(int width) { return ceil_div(width, kSlice); }

/// Memory of a block that serves one thing after the other. 32 KiB.
union Workspace {
  float logits[kSlice];
  uint64_t ranks[kSlice];
};

/// What a block leaves of its slice.
struct SliceResult {
  uint64_t best;   // the largest rank
  uint64_t total;  // logprobs: its sum of weights, relative to its own largest
  int32_t bad_id;  // of its first NaN or +inf, else INT_MAX
};

/// The launches' scratch memory. The counts are at the same place for any rows and width.
struct Scratch {
  unsigned* arrivals;    // [kMaxSampleRows] slices that are done; 0 before and after
  uint64_t* tops;        // [rows, slices, kMaxTop]
  SliceResult* results;  // [rows, slices]
  float* penalised;      // [rows, width] logits with penalties, where a whole row needs them

  __host__ __device__ Scratch(void* memory, int64_t num_rows, int width) {
    const int64_t slices = num_rows * num_slices(width);
    arrivals = static_cast<unsigned*>(memory);
    tops = reinterpret_cast<uint64_t*>(arrivals + kMaxSampleRows);
    results = reinterpret_cast<SliceResult*>(tops + slices * kMaxTop);
    penalised = reinterpret_cast<float*>(results + slices);
  }
  static size_t bytes(int64_t num_rows, int width) {
    const int64_t slices = num_rows * num_slices(width);
    return kMaxSampleRows * sizeof(unsigned) +
           slices * (kMaxTop * sizeof(uint64_t) + sizeof(SliceResult)) +
           num_rows * width * sizeof(float);
  }
};

/// One block a slice of each row.
inline LaunchConfig over_slices(const SampleArgs& args, Queue queue) {
  LaunchConfig config;
  config.grid = dim3(num_slices(args.width), args.num_rows);
  config.block = kThreads;
  config.stream = queue.stream;
  config.overlaps_predecessor = queue.overlaps;
  return config;
}

struct Largest {
  template <typename T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct Least {
  template <typename T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};
struct Sum {
  template <typename T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};

/// Over a full warp, the same in every lane.
template <typename T, typename Combine>
__device__ __forceinline__ T warp_reduce(T x, Combine combine) {
#pragma unroll
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) {
    x = combine(x, __shfl_xor_sync(kFullWarp, x, mask));
  }
  return x;
}

/// Over the block, the same in every thread.
template <typename T, typename Combine>
__device__ __forceinline__ T block_reduce(T x, Combine combine) {
  LLM_SHARED(T, of_warp, [kWarps]);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  x = warp_reduce(x, combine);
  __syncthreads();  // whoever still reads the last result
  if (lane == 0) of_warp[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  x = of_warp[lane % kWarps];
#pragma unroll
  for (int mask = kWarps / 2; mask > 0; mask /= 2) {
    x = combine(x, __shfl_xor_sync(kFullWarp, x, mask));
  }
  return x;
}

/// Whether this block is the last of its row's; then it sees what the others wrote.
__device__ __forceinline__ bool arrives_last(unsigned* arrivals) {
  LLM_SHARED(unsigned, arrived_before, [1]);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) arrived_before[0] = atomicAdd(arrivals, 1u);
  __syncthreads();
  if (arrived_before[0] + 1 != gridDim.x) return false;
  __threadfence();
  if (threadIdx.x == 0) *arrivals = 0;
  return true;
}

/// top[0 .. k) = the k largest of the block's ranks, the largest first, 0 where there are fewer;
/// k is at most kMaxTop. No two ranks may be equal but 0, which is none.
///
/// The threads are 64 groups. The least of the groups' best (of pairs of groups, for k up to 32) is
/// a bound that at least k ranks reach, and few hundred do; among these each counts those above it.
__device__ __forceinline__ void select_top(uint64_t* top, Workspace& workspace,
                                           const uint64_t (&ranks)[kPerThread], int k) {
  constexpr int kGroupLanes = kThreads / kMaxTop;
  LLM_SHARED(uint64_t, group_best, [kMaxTop]);
  LLM_SHARED(int, num_candidates, [1]);
  const int thread = static_cast<int>(threadIdx.x);

  uint64_t best = ranks[0];
#pragma unroll
  for (int i = 1; i < kPerThread; ++i) best = Largest()(best, ranks[i]);
#pragma unroll
  for (int mask = kGroupLanes / 2; mask > 0; mask /= 2) {
    best = Largest()(best, static_cast<uint64_t>(__shfl_xor_sync(kFullWarp, best, mask)));
  }
  __syncthreads();  // whoever still reads the workspace or the last result
  if (thread % kGroupLanes == 0) group_best[thread / kGroupLanes] = best;
  if (thread < k) top[thread] = 0;
  if (thread == 0) num_candidates[0] = 0;
  __syncthreads();

  const uint64_t one = group_best[thread % kWarpSize];
  const uint64_t other = group_best[thread % kWarpSize + kWarpSize];
  const uint64_t bound =
      warp_reduce(k <= kMaxTop / 2 ? Largest()(one, other) : Least()(one, other), Least());
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    if (ranks[i] == 0 || ranks[i] < bound) continue;
    workspace.ranks[atomicAdd(num_candidates, 1)] = ranks[i];
  }
  __syncthreads();

  const int n = num_candidates[0];
  for (int i = thread; i < n; i += kThreads) {
    const uint64_t rank = workspace.ranks[i];
    int above = 0;
    for (int j = 0; j < n; ++j) above += workspace.ranks[j] > rank ? 1 : 0;
    if (above < k) top[above] = rank;
  }
  __syncthreads();
}

/// What select_top() left for each slice of a row, as [num_slices, kMaxTop] in global memory: top
/// becomes the k largest of them all.
__device__ __forceinline__ void merge_tops(uint64_t* top, Workspace& workspace,
                                           const uint64_t* slice_tops, int k) {
  const int total = static_cast<int>(gridDim.x) * k;
  const int thread = static_cast<int>(threadIdx.x);
  // In rounds; the best so far take part in the next.
  for (int begin = 0; begin < total; begin += kSlice - kMaxTop) {
    uint64_t ranks[kPerThread];
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int place = thread + i * kThreads - kMaxTop;
      const int from = begin + place;
      if (place < 0) {
        ranks[i] = begin > 0 && place + kMaxTop < k ? top[place + kMaxTop] : 0;
      } else {
        ranks[i] = from < total ? __ldcg(slice_tops + from / k * kMaxTop + from % k) : 0;
      }
    }
    select_top(top, workspace, ranks, k);
  }
}

}  // namespace llm::sample
