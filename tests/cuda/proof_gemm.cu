// out[m, n] = x[m, k] w[n, k]^T on tensor cores: BF16 operands, float32 sums.
//
// A block of four warps makes 32x32 outputs, each warp 16x16. Slices of 32 columns of both operands
// come by cp.async into two buffers in turn (20 KiB of shared memory), rows 80 bytes apart, so that
// ldmatrix reads eight of them without bank conflicts. Reads 2 k bytes of x and w for 32 outputs.
#include "cuda/ptx.cuh"
#include "proof_kernels.h"

namespace llm {
namespace {

constexpr int kThreads = 128;
constexpr int kTile = 32;   // rows of x and of w
constexpr int kSlice = 32;  // columns
constexpr int kPitch = 40;
constexpr int kChunk = 8;  // columns that one cp.async brings

struct Tiles {
  bf16 x[2][kTile][kPitch];
  bf16 w[2][kTile][kPitch];
};

/// Thread t brings columns 8 (t % 4) .. + 7 of row t / 4; what lies outside the matrix becomes 0.
__device__ void load_slice(bf16 (&tile)[kTile][kPitch], const bf16* matrix, int first_row,
                           int num_rows, int k, int first_column) {
  const int row = static_cast<int>(threadIdx.x) / (kSlice / kChunk);
  const int column = static_cast<int>(threadIdx.x) % (kSlice / kChunk) * kChunk;
  const bool inside = first_row + row < num_rows && first_column + column < k;
  const size_t offset = static_cast<size_t>(first_row + row) * k + first_column + column;
  ptx::cp_async_16(&tile[row][column], inside ? matrix + offset : matrix, inside ? 16 : 0);
}

template <Fault kFault>
__global__ void __launch_bounds__(kThreads) proof_gemm_kernel(ProofGemm args) {
  LLM_DYN_SHARED(Tiles, tiles);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int first_m = static_cast<int>(blockIdx.y) * kTile;
  const int first_n = static_cast<int>(blockIdx.x) * kTile;
  const int warp_m = warp / 2 * 16;
  const int warp_n = warp % 2 * 16;
  const auto load = [&](int slice) {
    load_slice(tiles->x[slice % 2], args.x, first_m, args.m, args.k, slice * kSlice);
    load_slice(tiles->w[slice % 2], args.w, first_n, args.n, args.k, slice * kSlice);
  };

  float sums[2][4] = {};  // 8 columns each
  const int num_slices = (args.k + kSlice - 1) / kSlice;
  load(0);
  ptx::cp_async_commit();
  for (int slice = 0; slice < num_slices; ++slice) {
    if (slice + 1 < num_slices) load(slice + 1);
    ptx::cp_async_commit();
    ptx::cp_async_wait<kFault == Fault::kWeakAsyncWait ? 2 : 1>();
    if (kFault != Fault::kMissingBarrier) __syncthreads();
    const int buffer = slice % 2;
    for (int column = 0; column < kSlice; column += 16) {
      uint32_t a[4];
      uint32_t b[4];
      const int w_row =
          warp_n + lane % 8 + lane / 16 * 8 + (kFault == Fault::kSharedOutOfBounds ? kTile / 2 : 0);
      ptx::ldmatrix_x4(a, &tiles->x[buffer][warp_m + lane % 16][column + lane / 16 * 8]);
      ptx::ldmatrix_x4(b, tiles->w[buffer][0] + w_row * kPitch + column + lane / 8 % 2 * 8);
      ptx::mma_bf16(sums[0], a, {b[0], b[1]});
      ptx::mma_bf16(sums[1], a, {b[2], b[3]});
    }
    if (kFault != Fault::kBufferOverwrite) __syncthreads();
  }

  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 4; ++i) {
      const int m = first_m + warp_m + lane / 4 + i / 2 * 8;
      const int n = first_n + warp_n + half * 8 + lane % 4 * 2 + i % 2;
      if (m < args.m && n < args.n) args.out[static_cast<size_t>(m) * args.n + n] = sums[half][i];
    }
  }
}

template <Fault kFault>
void launch_with(const ProofGemm& args, cudaStream_t stream) {
  const auto tiles = [](int n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
  const LaunchConfig config{.grid = dim3(tiles(args.n), tiles(args.m)),
                            .block = kThreads,
                            .shared_bytes = sizeof(Tiles),
                            .stream = stream};
  LLM_LAUNCH(config, (proof_gemm_kernel<kFault>), args);
}

}  // namespace

void launch_proof_gemm(const ProofGemm& args, Fault fault, cudaStream_t stream) {
  switch (fault) {
    case Fault::kNone:
      return launch_with<Fault::kNone>(args, stream);
    case Fault::kMissingBarrier:
      return launch_with<Fault::kMissingBarrier>(args, stream);
    case Fault::kWeakAsyncWait:
      return launch_with<Fault::kWeakAsyncWait>(args, stream);
    case Fault::kBufferOverwrite:
      return launch_with<Fault::kBufferOverwrite>(args, stream);
    case Fault::kSharedOutOfBounds:
      return launch_with<Fault::kSharedOutOfBounds>(args, stream);
    default:
      check_cuda(cudaErrorInvalidValue, "launch_proof_gemm: no such fault");
  }
}

}  // namespace llm
