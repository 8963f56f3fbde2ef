// Matrix product for many rows: y[m, n] = x[m, k] W[n, k]^T + bias on tensor cores, for where
// cuBLASLt is missing or a row's result must not depend on how many rows there are.
//
// A block of 8 warps (2 along m, 4 along n) computes a tile of 128 x 128 outputs, or of 64 x 64
// where that would leave multiprocessors idle; a warp 64 x 32 or 32 x 16 of it. Tiles of k = 64 of
// both operands come through three stages of shared memory by cp.async: two are on their way while
// one is multiplied. Fragments come by ldmatrix.
//
// Layout of a stage: rows of 64 k = 8 pieces of 16 bytes; piece i of row r lies at place i ^ (r %
// 8), so that the 8 rows of one ldmatrix matrix lie in different banks, as do 8 pieces of a row.
//
// Bytes: x is read n / 128 times, W m / 128 times, mostly from L2. Shared memory: 96 KiB or 48 KiB.
//
// An output is one sum over k in steps of 16, ascending, whatever m and the tile are. Edges: rows
// that don't exist and k beyond the end are filled with 0.
//
// Where launches overlap, tiles of W are requested before the wait for the launch before, which
// makes x.
#include "cuda/device_utils.cuh"
#include "cuda/kernels.h"

namespace llm {
namespace {

constexpr int kWarpsM = 2;
constexpr int kWarpsN = 4;
constexpr int kThreads = kWarpsM * kWarpsN * kWarpSize;
constexpr int kTileK = 64;
constexpr int kStages = 3;
constexpr int kPiece = 8;                 // BF16 in 16 bytes
constexpr int kPieces = kTileK / kPiece;  // of a row of a tile
constexpr int kMmaM = 16, kMmaN = 8, kMmaK = 16;
constexpr int kFullWave = 128;  // blocks that keep most GPUs busy

struct Params {
  float* out;
  Epilogue epilogue;
  const bf16* x;
  int m;
  LinearWeights weights;
};

constexpr int kCopyRows = kThreads / kPieces;  // that the block copies at a time

/// What this thread copies: one piece of every kCopyRows-th row of an operand's tiles.
struct Source {
  const bf16* piece;  // of the first row, at k = 0
  int rows_left;      // from that row to the operand's last
  int k_left;         // from that piece to the end of the row
  int64_t stride;     // elements to the next row that it copies

  /// For tiles from row `first` of matrix[num_rows, k].
  __device__ __forceinline__ Source(const bf16* matrix, int num_rows, int k, int first) {
    const int row = first + static_cast<int>(threadIdx.x) / kPieces;
    const int offset = static_cast<int>(threadIdx.x) % kPieces * kPiece;
    piece = matrix + int64_t{row} * k + offset;
    rows_left = num_rows - row;
    k_left = k - offset;
    stride = int64_t{kCopyRows} * k;
  }
};

/// kRows rows of one operand, at one tile of k.
template <int kRows>
struct OperandTile {
  bf16 at[kRows][kTileK];

  __device__ __forceinline__ bf16* piece(int row, int i) {
    return &at[row][(i ^ (row % kPieces)) * kPiece];
  }

  /// Starts copying the tile at k0; what doesn't exist isn't read.
  __device__ __forceinline__ void start_copy(const Source& source, int k0) {
    static_assert(kRows % kCopyRows == 0 && kCopyRows % kPieces == 0);
    const int thread = threadIdx.x;
#pragma unroll
    for (int j = 0; j < kRows / kCopyRows; ++j) {
      const bool exists = j * kCopyRows < source.rows_left && k0 < source.k_left;
      ptx::cp_async_16(piece(thread / kPieces + j * kCopyRows, thread % kPieces),
                       source.piece + j * source.stride + k0, exists ? 16 : 0);
    }
  }
};

template <int kTileM, int kTileN>
struct Stage {
  OperandTile<kTileM> x;
  OperandTile<kTileN> w;
};

/// Adds the products of one stage to the warp's sums.
template <int kTileM, int kTileN, int kTilesM, int kTilesN>
__device__ __forceinline__ void multiply(float (&sums)[kTilesM][kTilesN][4],
                                         Stage<kTileM, kTileN>& stage) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int x_row = warp / kWarpsN * kTilesM * kMmaM + lane % 16;
  const int w_row = warp % kWarpsN * kTilesN * kMmaN + lane % 8 + 8 * (lane / 16);
#pragma unroll
  for (int k = 0; k < kTileK; k += kMmaK) {
    uint32_t a[kTilesM][4];
    uint32_t b[kTilesN / 2][4];  // two tiles of 8 columns each
#pragma unroll
    for (int i = 0; i < kTilesM; ++i) {
      ptx::ldmatrix_x4(a[i], stage.x.piece(x_row + i * kMmaM, k / kPiece + lane / 16));
    }
#pragma unroll
    for (int j = 0; j < kTilesN / 2; ++j) {
      ptx::ldmatrix_x4(b[j], stage.w.piece(w_row + j * 2 * kMmaN, k / kPiece + lane / 8 % 2));
    }
#pragma unroll
    for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
      for (int j = 0; j < kTilesN; ++j) {
        ptx::mma_bf16(sums[i][j], a[i], {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]});
      }
    }
  }
}

/// Writes outputs (row, column) and (row, column + 1).
__device__ __forceinline__ void write_pair(const Params& p, int row, int column, float y0,
                                           float y1) {
  const int n = p.weights.n;
  if (row >= p.m || column >= n) return;
  const bool is_pair = column + 1 < n;
  if (p.weights.bias) {
    y0 += p.weights.bias[column];
    if (is_pair) y1 += p.weights.bias[column + 1];
  }
  float* out = p.out + int64_t{row} * n + column;
  const bool adds = p.epilogue == Epilogue::kAdd;
  if (n % 2 == 0) {
    float2* pair = reinterpret_cast<float2*>(out);
    const float2 old = adds ? *pair : float2{0, 0};
    *pair = adds ? float2{old.x + y0, old.y + y1} : float2{y0, y1};
  } else {
    out[0] = adds ? out[0] + y0 : y0;
    if (is_pair) out[1] = adds ? out[1] + y1 : y1;
  }
}

template <int kTileM, int kTileN>
__global__ void __launch_bounds__(kThreads, 2) gemm_kernel(Params p) {
  constexpr int kTilesM = kTileM / kWarpsM / kMmaM;
  constexpr int kTilesN = kTileN / kWarpsN / kMmaN;
  using Tiles = Stage<kTileM, kTileN>;
  LLM_DYN_SHARED(Tiles, stages);
  ptx::let_successor_start();

  const int k = p.weights.k;
  const int first_m = static_cast<int>(blockIdx.x) * kTileM;
  const int first_n = static_cast<int>(blockIdx.y) * kTileN;
  const int num_tiles = ceil_div(k, kTileK);
  const Source w_source(p.weights.weight, p.weights.n, k, first_n);
  const Source x_source(p.x, p.m, k, first_m);
  const auto start_w = [&](int tile) {
    stages[tile % kStages].w.start_copy(w_source, tile * kTileK);
  };
  const auto start_x = [&](int tile) {
    stages[tile % kStages].x.start_copy(x_source, tile * kTileK);
  };
#pragma unroll
  for (int tile = 0; tile < kStages - 1; ++tile) start_w(tile);
  ptx::wait_for_predecessor();
#pragma unroll
  for (int tile = 0; tile < kStages - 1; ++tile) {
    start_x(tile);
    ptx::cp_async_commit();
  }

  float sums[kTilesM][kTilesN][4];
#pragma unroll
  for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
    for (int j = 0; j < kTilesN; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) sums[i][j][r] = 0;
    }
  }
  for (int tile = 0; tile < num_tiles; ++tile) {
    ptx::cp_async_wait<kStages - 2>();
    __syncthreads();  // this tile is there for all, and all have left the one before
    const int ahead = tile + kStages - 1;
    if (ahead < num_tiles) {
      start_w(ahead);
      start_x(ahead);
    }
    ptx::cp_async_commit();
    multiply<kTileM, kTileN>(sums, stages[tile % kStages]);
  }

  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int row0 = first_m + warp / kWarpsN * kTilesM * kMmaM + lane / 4;
  const int column0 = first_n + warp % kWarpsN * kTilesN * kMmaN + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
    for (int j = 0; j < kTilesN; ++j) {
      const float(&s)[4] = sums[i][j];
      write_pair(p, row0 + i * kMmaM, column0 + j * kMmaN, s[0], s[1]);
      write_pair(p, row0 + i * kMmaM + 8, column0 + j * kMmaN, s[2], s[3]);
    }
  }
}

template <int kTileM, int kTileN>
void launch_tiles(const Params& p, Queue queue) {
  LaunchConfig config;
  config.grid = dim3(ceil_div(p.m, kTileM), ceil_div(p.weights.n, kTileN));
  config.block = kThreads;
  config.shared_bytes = kStages * sizeof(Stage<kTileM, kTileN>);
  config.stream = queue.stream;
  config.overlaps_predecessor = queue.overlaps;
  LLM_LAUNCH(config, (gemm_kernel<kTileM, kTileN>), p);
}

}  // namespace

void launch_gemm(float* out, Epilogue epilogue, const bf16* x, int m, const LinearWeights& weights,
                 Queue queue) {
  if (m == 0 || weights.n == 0) return;
  if (epilogue == Epilogue::kSiluMul) {
    check_cuda(cudaErrorInvalidValue, "launch_gemm: epilogue");
  }
  if (m < 0 || weights.n < 0 || weights.k <= 0 || weights.k % kPiece != 0) {
    check_cuda(cudaErrorInvalidValue, "launch_gemm: m, n or k");
  }
  const Params p{out, epilogue, x, m, weights};
  if (ceil_div(m, 128) * ceil_div(weights.n, 128) >= kFullWave) {
    launch_tiles<128, 128>(p, queue);
  } else {
    launch_tiles<64, 64>(p, queue);
  }
}

}  // namespace llm
