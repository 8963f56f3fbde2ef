// The next id of each row of logits: penalties, temperature, top-k, top-p, min-p and the draw, as
// sample_row() (backend/sampling.cpp) and, since all arithmetic is that of sampling_rule.h, with
// the same result.
//
// Grid (slices of 4096 ids, rows), 512 threads; thread t has ids t + 512 j of its slice. Each block
// leaves its slice's largest rank, and for top-k up to 64 its k largest; the last one of a row
//   arg-max    compares the slices' largest
//   top-k      takes the k largest of all, in shared memory, and draws from them
//   otherwise  goes over the whole row: once for plain sampling, two passes more for top-p and for
//              a larger top-k (sample_row.cuh)
// Reads each logit once, 4 bytes, from L2; whole rows up to 5 times, where penalties apply from a
// copy. 35 KiB of shared memory.
#include "cuda/sample_row.cuh"

namespace llm {
namespace {

using namespace sample;

__device__ __forceinline__ bool is_greedy(const DrawRule& rule) { return rule.octaves == 0; }
__device__ __forceinline__ bool takes_top(const DrawRule& rule) {
  return !is_greedy(rule) && rule.top_k > 0 && rule.top_k <= kMaxTop;
}

/// By one thread.
__device__ __forceinline__ void write_id(const SampleArgs& args, int row, SampledId sampled) {
  args.sampled[row] = sampled;
}

/// Applies the row's penalties to a slice's logits in shared memory.
__device__ __forceinline__ void penalise_slice(float* logits, const SampleArgs& args,
                                               const DeviceSampleRow& row, int first_id) {
  const int pending = row.pending_at >= 0 ? args.input_ids[row.pending_at] : -1;
  const int end = first_id + kSlice < row.num_ids ? first_id + kSlice : row.num_ids;
  const auto penalise = [&](int id, int count) {
    if (id < first_id || id >= end) return;
    float& logit = logits[id - first_id];
    logit = draw::penalised(logit, count, row.penalties);
  };
  bool pending_listed = false;
  for (int i = threadIdx.x; i < row.num_penalised; i += kThreads) {
    const IdCount seen = args.penalised[row.first_penalised + i];
    const bool once_more = seen.id == pending;
    pending_listed |= once_more;
    penalise(seen.id, seen.count + (once_more ? 1 : 0));
  }
  const bool listed = __syncthreads_or(pending_listed) != 0;
  if (pending >= 0 && !listed && threadIdx.x == 0) penalise(pending, 1);
  __syncthreads();
}

/// By the last block: an id from those of top-k, the most probable first. Each thread has one, and
/// adds up what is before it.
__device__ __forceinline__ void draw_from_top(const SampleArgs& args, int row, const DrawRule& rule,
                                              uint64_t random, const uint64_t* top) {
  LLM_SHARED(uint64_t, weights, [kMaxTop]);
  LLM_SHARED(uint64_t, kept_weights, [kMaxTop]);
  const int own = static_cast<int>(threadIdx.x);
  const int k = rule.top_k;
  const float largest = draw::logit_of(top[0]);
  if (own < k) {
    weights[own] =
        top[own] == 0 ? 0 : draw::weight_of(draw::logit_of(top[own]), largest, rule.octaves);
  }
  __syncthreads();
  if (own < k) {
    uint64_t total = 0;
    uint64_t before = 0;
    for (int i = 0; i < k; ++i) {
      total += weights[i];
      if (i < own) before += weights[i];
    }
    const bool kept = (rule.top_p == 0 || before < draw::wanted_weight(rule.top_p, total)) &&
                      weights[own] >= rule.min_p;
    kept_weights[own] = kept ? weights[own] : 0;
  }
  __syncthreads();
  if (own < k && kept_weights[own] > 0) {
    uint64_t total = 0;
    uint64_t before = 0;  // of lower ids
    for (int i = 0; i < k; ++i) {
      total += kept_weights[i];
      if (draw::id_of(top[i]) < draw::id_of(top[own])) before += kept_weights[i];
    }
    const uint64_t target = draw::target_of(random, total);
    if (before <= target && target < before + kept_weights[own]) {
      write_id(args, row, {draw::id_of(top[own])});
    }
  }
}

/// By the last block: an id from the whole row.
__device__ __forceinline__ void draw_from_row(const SampleArgs& args, int row, WholeRow whole,
                                              const DrawRule& rule, uint64_t random,
                                              Workspace& workspace) {
  if (rule.top_k > 0) {
    whole.least_rank = least_kept<Measure::kOne>(whole, workspace, rule.top_k);
  }
  if (rule.top_p > 0) {
    whole.least_rank = least_kept<Measure::kWeight>(whole, workspace, rule.top_p);
  }
  const int id = draw_kept(whole, random);
  if (threadIdx.x == 0) write_id(args, row, {id});
}

/// A slice's logits, and ranks of those that can be drawn, else 0.
struct Slice {
  uint64_t ranks[kPerThread];
  int32_t bad_id = INT_MAX;  // this thread's first NaN or +inf

  __device__ __forceinline__ Slice(const SampleArgs& args, const DeviceSampleRow& row,
                                   float* penalised, Workspace& workspace) {
    const int thread = static_cast<int>(threadIdx.x);
    const int first_id = static_cast<int>(blockIdx.x) * kSlice;
    const float* logits = args.logits + row.logits_row * args.width;
    float x[kPerThread];
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int id = first_id + thread + i * kThreads;
      x[i] = id < args.width ? __ldcg(logits + id) : -INFINITY;
    }
#pragma unroll
    for (int i = kPerThread - 1; i >= 0; --i) {
      if (!(x[i] < INFINITY)) bad_id = first_id + thread + i * kThreads;
    }
    if (row.num_penalised > 0 || row.pending_at >= 0) {
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) workspace.logits[thread + i * kThreads] = x[i];
      __syncthreads();
      penalise_slice(workspace.logits, args, row, first_id);
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        x[i] = workspace.logits[thread + i * kThreads];
        const int id = first_id + thread + i * kThreads;
        if (penalised != nullptr && id < args.width) penalised[id] = x[i];
      }
    }
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int id = first_id + thread + i * kThreads;
      ranks[i] = id < row.num_ids && x[i] > -INFINITY ? draw::rank_of(x[i], id) : 0;
    }
  }
};

__global__ void __launch_bounds__(kThreads, 2) sample_kernel(SampleArgs args) {
  LLM_SHARED(Workspace, workspace, [1]);
  LLM_SHARED(uint64_t, top, [kMaxTop]);
  ptx::let_successor_start();
  ptx::wait_for_predecessor();
  const int thread = static_cast<int>(threadIdx.x);
  const int row_index = static_cast<int>(blockIdx.y);
  const DeviceSampleRow& row = args.rows[row_index];
  if (row.num_ids <= 0) {
    if (blockIdx.x == 0 && thread == 0) write_id(args, row_index, {});
    return;
  }
  const Scratch scratch(args.scratch, args.num_rows, args.width);
  const DrawRule rule = row.rule;
  const int64_t first_slice = int64_t{row_index} * gridDim.x;
  const bool whole = !is_greedy(rule) && !takes_top(rule);
  const bool penalised = row.num_penalised > 0 || row.pending_at >= 0;
  float* const copy = scratch.penalised + int64_t{row_index} * args.width;

  uint64_t best = 0;
  int32_t bad_id = INT_MAX;
  {
    const Slice slice(args, row, whole ? copy : nullptr, workspace[0]);
    if (takes_top(rule)) {
      select_top(top, workspace[0], slice.ranks, rule.top_k);
      best = top[0];
      if (thread < rule.top_k) {
        scratch.tops[(first_slice + blockIdx.x) * kMaxTop + thread] = top[thread];
      }
    } else {
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) best = Largest()(best, slice.ranks[i]);
      best = block_reduce(best, Largest());
    }
    bad_id = block_reduce(slice.bad_id, Least());
  }
  if (thread == 0) scratch.results[first_slice + blockIdx.x] = {best, 0, bad_id};
  if (!arrives_last(scratch.arrivals + row_index)) return;

  best = 0;
  bad_id = INT_MAX;
  for (int i = thread; i < static_cast<int>(gridDim.x); i += kThreads) {
    const SliceResult& result = scratch.results[first_slice + i];
    best = Largest()(best, __ldcg(&result.best));
    bad_id = Least()(bad_id, __ldcg(&result.bad_id));
  }
  best = block_reduce(best, Largest());
  bad_id = block_reduce(bad_id, Least());
  const float* const raw = args.logits + row.logits_row * args.width;
  if (bad_id != INT_MAX || best == 0) {
    if (thread != 0) return;
    LogitFault fault = LogitFault::kAllMinusInf;
    if (bad_id != INT_MAX) {
      fault = raw[bad_id] == INFINITY ? LogitFault::kInfinite : LogitFault::kNaN;
    }
    write_id(args, row_index, {bad_id != INT_MAX ? bad_id : 0, fault});
  } else if (is_greedy(rule)) {
    if (thread == 0) write_id(args, row_index, {draw::id_of(best)});
  } else {
    const uint64_t random = draw::random_53(rule.seed, row.counter);
    if (whole) {
      const WholeRow whole_row{penalised ? copy : raw, row.num_ids, draw::logit_of(best),
                               rule.octaves,           0,           rule.min_p};
      draw_from_row(args, row_index, whole_row, rule, random, workspace[0]);
    } else {
      merge_tops(top, workspace[0], scratch.tops + first_slice * kMaxTop, rule.top_k);
      draw_from_top(args, row_index, rule, random, top);
    }
  }
}

}  // namespace

size_t sample_scratch_bytes(int num_rows, int width) {
  return sample::Scratch::bytes(num_rows, width);
}

void launch_sample(const SampleArgs& args, Queue queue) {
  if (args.num_rows == 0) return;
  if (args.num_rows < 0 || args.num_rows > kMaxSampleRows || args.width <= 0 ||
      args.width > draw::kMaxIds) {
    check_cuda(cudaErrorInvalidValue, "launch_sample: num_rows and width");
  }
  LLM_LAUNCH(sample::over_slices(args, queue), sample_kernel, args);
}

}  // namespace llm
