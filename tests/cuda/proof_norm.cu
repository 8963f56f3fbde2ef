// RMSNorm with one block a row: out = x / sqrt(mean(x^2) + eps) * weight, float32 in, BF16 out.
// Thread t takes columns t, t + 128, ...; sums go through shuffles, then shared memory (16 bytes).
// Moves rows * width * (4 + 2) bytes, and the weights.
#include "proof_kernels.h"

namespace llm {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

template <Fault kFault>
__global__ void __launch_bounds__(kThreads) proof_norm_kernel(ProofNorm args) {
  LLM_SHARED(float, warp_sums, [kWarps]);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int row = static_cast<int>(blockIdx.x);
  const float* const x = args.x + static_cast<size_t>(row) * args.width;
  bf16* const out = args.out + static_cast<size_t>(row) * args.width;

  float sum = 0;
  for (int i = thread; i < args.width; i += kThreads) sum += x[i] * x[i];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
  if (lane == 0) warp_sums[warp] = sum;
  if (kFault == Fault::kSharedOutOfBounds && lane == 0 && warp == kWarps - 1) {
    warp_sums[warp + min(args.rows, 1)] = sum;
  }
  if (kFault != Fault::kMissingBarrier) __syncthreads();
  float total = 0;
  for (int w = 0; w < kWarps; ++w) total += warp_sums[w];

  const float scale = rsqrtf(total / static_cast<float>(args.width) + args.eps);
  const bool last = row == args.rows - 1;
  const int end = args.width + (kFault == Fault::kGlobalOutOfBounds && last ? 1 : 0);
  for (int i = thread; i < end; i += kThreads) {
    const int column = i < args.width ? i : 0;
    out[i] = __float2bfloat16(x[column] * scale * args.weight[column]);
  }
  if (thread != 0) return;
  if (kFault == Fault::kNonAtomicUpdate) {
    *args.rows_done += 1;
  } else {
    atomicAdd(args.rows_done, 1);
  }
}

template <Fault kFault>
void launch_with(const ProofNorm& args, cudaStream_t stream) {
  const LaunchConfig config{
      .grid = static_cast<unsigned>(args.rows), .block = kThreads, .stream = stream};
  LLM_LAUNCH(config, (proof_norm_kernel<kFault>), args);
}

}  // namespace

void launch_proof_norm(const ProofNorm& args, Fault fault, cudaStream_t stream) {
  switch (fault) {
    case Fault::kNone:
      return launch_with<Fault::kNone>(args, stream);
    case Fault::kMissingBarrier:
      return launch_with<Fault::kMissingBarrier>(args, stream);
    case Fault::kSharedOutOfBounds:
      return launch_with<Fault::kSharedOutOfBounds>(args, stream);
    case Fault::kGlobalOutOfBounds:
      return launch_with<Fault::kGlobalOutOfBounds>(args, stream);
    case Fault::kNonAtomicUpdate:
      return launch_with<Fault::kNonAtomicUpdate>(args, stream);
    default:
      check_cuda(cudaErrorInvalidValue, "launch_proof_norm: no such fault");
  }
}

}  // namespace llm
