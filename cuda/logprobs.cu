// What the log-probabilities of sampled ids are made of, from the raw logits:
//
//   total = sum(exp(x - largest)), the chosen id's logit, and the largest logits with their ids
//
// Grid (slices of 4096 ids, rows), 512 threads; thread t has ids t + 512 j of its slice. Each block
// leaves its slice's largest ranks and its sum relative to the largest of them; the last one of a
// row brings the sums to the row's largest and merges. The logarithm is the host's.
// Reads 4 bytes an id, from L2. 34 KiB of shared memory.
#include "cuda/sample_block.cuh"

namespace llm {
namespace {

using namespace sample;

constexpr float kOctaves = 1.4426950408889634f;  // log2(e): temperature 1

/// sum * weight, where weight is in units of 2^-40 and sum at most 2^52, that of a flat slice.
__device__ __forceinline__ uint64_t scaled(uint64_t sum, uint64_t weight) {
  return draw::multiply_high(sum << 11, weight << (64 - draw::kWeightBits - 11));
}
static_assert(uint64_t{kSlice} << draw::kWeightBits <= uint64_t{1} << 52);

__global__ void __launch_bounds__(kThreads, 2) logprobs_kernel(RowLogprobs* out, SampleArgs args) {
  LLM_SHARED(Workspace, workspace, [1]);
  LLM_SHARED(uint64_t, top, [kMaxTop]);
  ptx::let_successor_start();
  ptx::wait_for_predecessor();
  const int thread = static_cast<int>(threadIdx.x);
  const int row_index = static_cast<int>(blockIdx.y);
  const DeviceSampleRow& row = args.rows[row_index];
  if (row.num_ids <= 0 || row.num_top < 0) return;
  const Scratch scratch(args.scratch, args.num_rows, args.width);
  const int num_top = Least()(row.num_top, kMaxTopLogprobs);
  const int k = Largest()(num_top, 1);
  const int64_t first_slice = int64_t{row_index} * gridDim.x;
  const float* const logits = args.logits + row.logits_row * args.width;

  const int first_id = static_cast<int>(blockIdx.x) * kSlice + thread;
  uint64_t ranks[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int id = first_id + i * kThreads;
    ranks[i] = id < args.width ? draw::rank_of(__ldcg(logits + id), id) : 0;
  }
  select_top(top, workspace[0], ranks, k);
  uint64_t total = 0;
  const float slice_largest = draw::logit_of(top[0]);
  if (slice_largest > -INFINITY) {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      if (ranks[i] == 0) continue;
      total += draw::weight_of(draw::logit_of(ranks[i]), slice_largest, kOctaves);
    }
  }
  total = block_reduce(total, Sum());
  if (thread < k) scratch.tops[(first_slice + blockIdx.x) * kMaxTop + thread] = top[thread];
  if (thread == 0) scratch.results[first_slice + blockIdx.x] = {top[0], total, INT_MAX};
  if (!arrives_last(scratch.arrivals + row_index)) return;

  merge_tops(top, workspace[0], scratch.tops + first_slice * kMaxTop, k);
  const float largest = draw::logit_of(top[0]);
  total = 0;
  for (int i = thread; i < static_cast<int>(gridDim.x); i += kThreads) {
    const SliceResult& result = scratch.results[first_slice + i];
    const float logit = draw::logit_of(__ldcg(&result.best));
    total += scaled(__ldcg(&result.total), draw::weight_of(logit, largest, kOctaves));
  }
  total = block_reduce(total, Sum());
  RowLogprobs& to = out[row_index];
  if (thread < num_top) {
    to.top_ids[thread] = top[thread] == 0 ? -1 : draw::id_of(top[thread]);
    to.top_logits[thread] = draw::logit_of(top[thread]);
  }
  if (thread == 0) {
    to.total = total;
    to.largest = largest;
    to.chosen = logits[args.sampled[row_index].id];
  }
}

}  // namespace

void launch_logprobs(RowLogprobs* out, const SampleArgs& args, Queue queue) {
  if (args.num_rows == 0) return;
  if (args.num_rows < 0 || args.num_rows > kMaxSampleRows || args.width <= 0 ||
      args.width > draw::kMaxIds) {
    check_cuda(cudaErrorInvalidValue, "launch_logprobs: num_rows and width");
  }
  LLM_LAUNCH(over_slices(args, queue), logprobs_kernel, out, args);
}

}  // namespace llm
