// Attention of one query over keys in splits of 64: out = softmax(q k^T) v, per head of 64.
//
// Grid (max_splits, heads), two warps a block; each warp takes 32 of the split's keys: a lane
// scores one key, then sums two dimensions of the values over the warp's keys. The block's two
// halves meet in shared memory, the splits in `partials`; the split that finishes last merges them.
// Reads each key and value once: 256 bytes a key and head. Shared memory 1.3 KiB.
#include <cmath>

#include "proof_kernels.h"

namespace llm {
namespace {

constexpr int kDim = kProofHeadDim;
constexpr int kWarps = 2;
constexpr int kThreads = kWarps * 32;
constexpr int kPartial = 2 + kDim;  // maximum, sum, values
static_assert(kProofSplit == kThreads);

__device__ float warp_max(float x) {
  for (int offset = 16; offset > 0; offset /= 2) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, offset));
  }
  return x;
}

__device__ float warp_sum(float x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffff, x, offset);
  return x;
}

/// Merges `count` partial results, `stride` floats apart: dimension `dim` of maximum, sum, values.
__device__ void merge(float* out, const float* partials, int count, int stride, int dim) {
  float maximum = -INFINITY;
  for (int i = 0; i < count; ++i) maximum = fmaxf(maximum, partials[i * stride]);
  float sum = 0;
  float value = 0;
  for (int i = 0; i < count; ++i) {
    const float* const partial = partials + i * stride;
    const float weight = partial[1] > 0 ? expf(partial[0] - maximum) : 0;
    sum += weight * partial[1];
    value += weight * (partial[1] > 0 ? partial[2 + dim] : 0);
  }
  out[0] = maximum;
  out[1] = sum;
  out[2] = value;
}

template <Fault kFault>
__global__ void __launch_bounds__(kThreads) proof_attention_kernel(ProofAttention args) {
  LLM_SHARED(float, query, [kDim]);
  LLM_SHARED(float, weights, [kThreads]);
  LLM_SHARED(float, halves, [kWarps][kPartial]);
  LLM_SHARED(bool, is_last, [1]);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int split = static_cast<int>(blockIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  const int length = kFault == Fault::kFrozenScalar ? args.frozen_length : *args.length;
  const int num_splits = (length + kProofSplit - 1) / kProofSplit;
  if (split >= num_splits) return;

  query[thread] = args.q[head * kDim + thread];
  __syncthreads();

  const size_t first_key = static_cast<size_t>(head) * args.capacity + split * kProofSplit;
  const int num_keys = min(length - split * kProofSplit, kProofSplit);
  float score = -INFINITY;
  if (thread < num_keys) {
    const bf16* const key = args.k + (first_key + thread) * kDim;
    score = 0;
    for (int d = 0; d < kDim; ++d) score += query[d] * __bfloat162float(key[d]);
  }
  const float maximum = warp_max(score);
  const float weight = thread < num_keys ? expf(score - maximum) : 0;
  const float sum = warp_sum(weight);
  weights[thread] = weight;
  if (kFault == Fault::kShuffleAsWarpSync) {
    warp_sum(weight);
  } else if (kFault != Fault::kMissingWarpSync) {
    __syncwarp();
  }
  float values[2] = {};
  for (int i = warp * 32; i < min(warp * 32 + 32, num_keys); ++i) {
    const bf16* const value = args.v + (first_key + i) * kDim;
    for (int half = 0; half < 2; ++half) {
      values[half] += weights[i] * __bfloat162float(value[lane + 32 * half]);
    }
  }
  for (int half = 0; half < 2; ++half) halves[warp][2 + lane + 32 * half] = values[half];
  if (lane == 0) {
    halves[warp][0] = maximum;
    halves[warp][1] = sum;
  }
  __syncthreads();

  float merged[3];
  merge(merged, halves[0], kWarps, kPartial, thread);
  const int max_splits = args.capacity / kProofSplit;
  float* const partials = args.partials + static_cast<size_t>(head) * max_splits * kPartial;
  float* const own = partials + split * kPartial;
  if (thread == 0) {
    own[0] = merged[0];
    own[1] = merged[1];
  }
  own[2 + thread] = merged[2];
  if (kFault != Fault::kMissingFence) __threadfence();
  __syncthreads();
  if (thread == 0) {
    unsigned before;
    if (kFault == Fault::kNonAtomicUpdate) {
      before = args.finished[head]++;
    } else {
      before = atomicAdd(&args.finished[head], 1U);
    }
    is_last[0] = before + 1 == static_cast<unsigned>(num_splits);
    __threadfence();
  }
  __syncthreads();
  if (!is_last[0]) return;
  merge(merged, partials, num_splits, kPartial, thread);
  args.out[head * kDim + thread] = merged[2] / merged[1];
  if (thread == 0) args.finished[head] = 0;
}

template <Fault kFault>
void launch_with(const ProofAttention& args, cudaStream_t stream) {
  const LaunchConfig config{.grid = dim3(static_cast<unsigned>(args.capacity / kProofSplit),
                                         static_cast<unsigned>(args.heads)),
                            .block = kThreads,
                            .stream = stream};
  LLM_LAUNCH(config, (proof_attention_kernel<kFault>), args);
}

}  // namespace

void launch_proof_attention(const ProofAttention& args, Fault fault, cudaStream_t stream) {
  switch (fault) {
    case Fault::kNone:
      return launch_with<Fault::kNone>(args, stream);
    case Fault::kMissingWarpSync:
      return launch_with<Fault::kMissingWarpSync>(args, stream);
    case Fault::kShuffleAsWarpSync:
      return launch_with<Fault::kShuffleAsWarpSync>(args, stream);
    case Fault::kNonAtomicUpdate:
      return launch_with<Fault::kNonAtomicUpdate>(args, stream);
    case Fault::kMissingFence:
      return launch_with<Fault::kMissingFence>(args, stream);
    case Fault::kFrozenScalar:
      return launch_with<Fault::kFrozenScalar>(args, stream);
    default:
      check_cuda(cudaErrorInvalidValue, "launch_proof_attention: no such fault");
  }
}

}  // namespace llm
