// How the last block of a row of sample.cu draws an id from all of the row, where more than the few
// of select_top() may be drawn: without a sort, by sums of integer weights over ranges of ranks.
#pragma once

#include "cuda/sample_block.cuh"

namespace llm::sample {

/// A row of logits, penalties applied, and which of its ids are kept.
struct WholeRow {
  const float* logits;
  int num_ids;
  float largest;
  float octaves;
  uint64_t least_rank;    // ids of a lower rank aren't kept
  uint64_t least_weight;  // nor are those of less weight

  __device__ __forceinline__ uint64_t weight(float logit) const {
    return draw::weight_of(logit, largest, octaves);
  }
  __device__ __forceinline__ uint64_t kept_weight(int id) const {
    const float logit = __ldcg(logits + id);
    const uint64_t w = weight(logit);
    return draw::rank_of(logit, id) >= least_rank && w >= least_weight ? w : 0;
  }
};

/// Sums of 64 bits by bin, in shared memory. Each is two halves, since shared memory adds 32 bits.
struct Histogram {
  static constexpr int kBins = 256;
  unsigned low[kBins];
  unsigned high[kBins];

  __device__ __forceinline__ void clear() {
    for (int i = threadIdx.x; i < kBins; i += kThreads) low[i] = high[i] = 0;
  }
  __device__ __forceinline__ void add(int bin, uint64_t amount) {
    const unsigned addend = static_cast<unsigned>(amount);
    const unsigned before = atomicAdd(&low[bin], addend);
    const unsigned carry = before + addend < addend ? 1 : 0;
    const unsigned upper = static_cast<unsigned>(amount >> 32) + carry;
    if (upper != 0) atomicAdd(&high[bin], upper);
  }
  __device__ __forceinline__ uint64_t sum(int bin) const {
    return uint64_t{high[bin]} << 32 | low[bin];
  }
  /// Of a lane's bins.
  __device__ __forceinline__ uint64_t lane_sum() const {
    constexpr int kPerLane = kBins / kWarpSize;
    const int first = static_cast<int>(threadIdx.x) % kWarpSize * kPerLane;
    uint64_t own = 0;
    for (int i = 0; i < kPerLane; ++i) own += sum(first + i);
    return own;
  }
  /// Of all; every warp computes it.
  __device__ __forceinline__ uint64_t total() const { return warp_reduce(lane_sum(), Sum()); }
};
static_assert(draw::kWeightBins <= Histogram::kBins);

/// The bin in which the sums, from the highest bin down, reach `wanted` (from 1 to the total), of
/// which then remains what the bins above don't have. Every warp computes it.
__device__ __forceinline__ int find_bin(const Histogram& histogram, uint64_t& wanted) {
  constexpr int kPerLane = Histogram::kBins / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const uint64_t own = histogram.lane_sum();
  uint64_t reached = own;  // by this lane and those above
#pragma unroll
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const uint64_t above = __shfl_down_sync(kFullWarp, reached, distance);
    if (lane + distance < kWarpSize) reached += above;
  }
  const bool here = reached >= wanted && reached - own < wanted;
  const int found = __ffs(static_cast<int>(__ballot_sync(kFullWarp, here))) - 1;
  wanted -= __shfl_sync(kFullWarp, reached - own, found);
  int bin = found * kPerLane + kPerLane - 1;
  for (; bin > found * kPerLane && histogram.sum(bin) < wanted; --bin) wanted -= histogram.sum(bin);
  return bin;
}

/// What least_kept() counts of each id: 1 for top-k, the weight for top-p.
enum class Measure { kOne, kWeight };

template <Measure kMeasure>
__device__ __forceinline__ uint64_t measure(uint64_t weight) {
  return kMeasure == Measure::kOne ? 1 : weight;
}

/// The rank of the last of the most probable kept ids that together measure `limit` (ids for top-k,
/// their share for top-p); row.least_rank where all don't.
///
/// First by bins of weights: whole bins are kept or dropped, but for one. Its ranks, in shared
/// memory if they fit, are then split into 256 ranges until one rank is left.
template <Measure kMeasure>
__device__ __forceinline__ uint64_t least_kept(const WholeRow& row, Workspace& workspace,
                                               uint64_t limit) {
  LLM_SHARED(Histogram, histogram, [1]);
  LLM_SHARED(int, num_members, [1]);
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();
  histogram[0].clear();
  if (thread == 0) num_members[0] = 0;
  __syncthreads();
  for (int id = thread; id < row.num_ids; id += kThreads) {
    const float logit = __ldcg(row.logits + id);
    if (draw::rank_of(logit, id) < row.least_rank) continue;
    const uint64_t weight = row.weight(logit);
    histogram[0].add(draw::bin_of(weight), measure<kMeasure>(weight));
  }
  __syncthreads();
  const uint64_t total = histogram[0].total();
  uint64_t wanted = kMeasure == Measure::kOne ? limit : draw::wanted_weight(limit, total);
  if (wanted > total) return row.least_rank;
  const int bin = find_bin(histogram[0], wanted);

  uint64_t low = ~uint64_t{0};
  uint64_t high = 0;
  for (int id = thread; id < row.num_ids; id += kThreads) {
    const float logit = __ldcg(row.logits + id);
    const uint64_t rank = draw::rank_of(logit, id);
    if (rank < row.least_rank || draw::bin_of(row.weight(logit)) != bin) continue;
    const int place = atomicAdd(num_members, 1);
    if (place < kSlice) workspace.ranks[place] = rank;
    low = Least()(low, rank);
    high = Largest()(high, rank);
  }
  low = block_reduce(low, Least());
  high = block_reduce(high, Largest());

  const bool listed = num_members[0] <= kSlice;
  const int n = listed ? num_members[0] : row.num_ids;
  while (low < high) {
    const int bits = 64 - __clzll(static_cast<long long>(high - low));
    const int shift = bits > 8 ? bits - 8 : 0;
    histogram[0].clear();
    __syncthreads();
    for (int i = thread; i < n; i += kThreads) {
      const uint64_t rank = listed ? workspace.ranks[i] : draw::rank_of(__ldcg(row.logits + i), i);
      if (rank < low || rank > high) continue;
      const uint64_t weight = kMeasure == Measure::kOne ? 1 : row.weight(draw::logit_of(rank));
      histogram[0].add(static_cast<int>((rank - low) >> shift), weight);
    }
    __syncthreads();
    low += static_cast<uint64_t>(find_bin(histogram[0], wanted)) << shift;
    high = Least()(high, low + ((uint64_t{1} << shift) - 1));
    __syncthreads();  // whoever still reads the histogram
  }
  return low;
}

/// The first kept id, in ascending order, at which the sum of weights is more than the random share
/// of their total: by sums of 16 parts of the row, then of 16 parts of that part, and so on.
__device__ __forceinline__ int draw_kept(const WholeRow& row, uint64_t random) {
  LLM_SHARED(uint64_t, sums, [kWarps]);
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  int begin = 0;
  int end = row.num_ids;
  uint64_t target = 0;
  for (bool whole = true;; whole = false) {
    const int part = ceil_div(end - begin, kWarps);
    const int part_begin = begin + warp * part;
    const int part_end = Least()(part_begin + part, end);
    uint64_t own = 0;
    for (int id = part_begin + lane; id < part_end; id += kWarpSize) own += row.kept_weight(id);
    own = warp_reduce(own, Sum());
    if (lane == 0) sums[warp] = own;
    __syncthreads();
    if (whole) {
      uint64_t total = 0;
      for (int i = 0; i < kWarps; ++i) total += sums[i];
      target = draw::target_of(random, total);
    }
    int drawn = 0;
    for (; drawn < kWarps - 1 && target >= sums[drawn]; ++drawn) target -= sums[drawn];
    __syncthreads();  // whoever still reads the sums
    begin += drawn * part;
    end = Least()(begin + part, end);
    if (end - begin <= 1) return begin;
  }
}

}  // namespace llm::sample
