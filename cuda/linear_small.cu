// Matrix product for few rows: y[m, n] = x[m, k] W[n, k]^T + bias, m <= 64, W read once.
//
// Bound by the bytes of W: 2 n k. So W goes straight from memory to registers, 64 KiB or 32 KiB of
// it on the way per block, and the tensor cores make 1 row of x as cheap as 8.
//
// Mapping. W is the A operand (16 rows of W a tile), x the B operand (8 rows of x a tile), of
// m16n8k16 products. Lane (g = lane / 4, c = lane % 4) loads 16 bytes of rows g and g + 8 of a tile
// at k = 8 c of a step of 32 k, and the same of row g of x. These 8 values serve two products, four
// each: both operands see k in the same other order, which changes nothing but the order of sums.
// So W stays row-major, as cuBLASLt wants it.
//
// A block is 8 warps and computes a group of 16 or 32 rows of W, for all rows of x. Warp w sums the
// chunks w, w + 8, .. of 64 k (a cache line of a row), each in a step of 32 after the other. Then
// the sums of warps 0 to 7 are added in this order (linear_epilogue.cuh). Where n gives too few
// blocks, two blocks share a group, each with half of k. All of that depends on (n, k) alone, so
// that the bits of an output depend on nothing but its rows of x and W: a column of the tensor core
// doesn't see its neighbours.
//
// Registers hold the next 2 to 8 steps of W; a step that is used is replaced by the next pass's, or
// that of the block's next group. The first pass is requested before the wait for the launch before
// (which makes x, not W). x comes from L2 or L1; where it is normed on the way (m <= 8), every
// block norms all rows into shared memory (linear_norm.cuh).
//
// Variants <tiles of x, tiles of W>; in flight per block and shared memory in KiB. Registers: 128
// at most, so that two blocks fit a multiprocessor, or one beside the next launch's.
//
//   rows of x   variant  steps ahead  in flight  shared  bytes of x read per byte of W
//   1 - 8       <1, 1>   8            64         5       1/2
//               <1, 2>   4            64         9       1/4
//   9 - 16      <2, 1>   6            48         10      1
//               <2, 2>   4            64         18      1/2
//   17 - 32     <4, 1>   4            32         20      2
//               <4, 2>   2            32         36      1
//   33 - 64     <8, 2>   2            32         36      2
//
// Two tiles of W: gate and up rows for SiLU, or at least 8192 rows. Normed rows take another 2 m k
// bytes of shared memory, 80 KiB at most.
#include "cuda/linear_epilogue.cuh"
#include "cuda/linear_norm.cuh"

namespace llm {
namespace {

using namespace small_linear;

constexpr int kStep = 32;   // k of one 16-byte load by each of four lanes: two products
constexpr int kChunk = 64;  // k of 128 bytes, a cache line of a row of W
constexpr int kVector = 8;  // BF16 in 16 bytes

// The split of k over blocks depends on (n, k) alone. Below this number of row tiles even two
// blocks a tile find a place each on the 132 multiprocessors of an H200.
constexpr int kMaxSplitTiles = 66;
constexpr int kMinSplitK = 1024;
constexpr int kMaxSlices = 2;

constexpr int kManyRows = 8192;  // from here on two row tiles a block still fill a GPU
constexpr int kBlocksPerMultiprocessor = 2;
constexpr int kMaxNormedBytes = 80 * 1024;  // shared memory for normed rows

/// k of a lane's slot i, from that of slot 0: a warp takes every eighth chunk.
__host__ __device__ constexpr int slot_k(int i) {
  return (i / 2) * (kWarps * kChunk) + (i % 2) * kStep;
}

/// What fits in the registers of a lane.
template <int kColumnTiles, int kRowTiles>
struct Plan {
  static constexpr int kTiles = kColumnTiles * kRowTiles;
  /// Steps of weights, and of x, that are loaded ahead of their use (x: 0 where it is read then).
  static constexpr int kWeights = kTiles == 1                           ? 8
                                  : kTiles > 4                          ? 2
                                  : kColumnTiles == 2 && kRowTiles == 1 ? 6
                                                                        : 4;
  static constexpr int kX = kColumnTiles == 1 ? 4 : kTiles == 2 ? 2 : 0;
  /// Whether a block takes several groups of rows in turn, loading the next ahead.
  static constexpr bool kManyGroups = kColumnTiles == 1;
};

/// g in the layout of the tensor cores' operands (ptx.cuh).
__device__ __forceinline__ int lane_row() { return threadIdx.x % kWarpSize / 4; }

/// Where this lane's next weights lie: rows g and g + 8 of each row tile. Counted in vectors of 8.
template <int kRowTiles>
struct WeightRows {
  const uint4* row;  // row g of tile 0
  int left;          // rows from there to the last one
  int pitch;         // from a row to the next
  int to_tile_1;     // rows from tile 0 to tile 1
  int left_less;     // and what that leaves less

  /// The group's rows at k.
  __device__ __forceinline__ WeightRows(const Params& p, int group, int k) {
    const bool gated = p.epilogue == Epilogue::kSiluMul;  // then tile 1 holds the up rows
    const int rows = gated ? p.weights.n / 2 : p.weights.n;
    const int first = first_row<kRowTiles>(p, group) + lane_row();
    row = reinterpret_cast<const uint4*>(p.weights.weight + int64_t{first} * p.weights.k + k);
    left = rows - first;
    pitch = p.weights.k / kVector;
    to_tile_1 = gated ? rows : kTileRows;
    left_less = gated ? 0 : kTileRows;
  }

  /// Starts loading the lane's 8 elements of each row, `ahead` from here. What doesn't exist is 0.
  __device__ __forceinline__ void load(uint4 (&to)[kRowTiles][2], int ahead, bool exists) const {
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4* from =
            row + (t * to_tile_1 + half * (kTileRows / 2)) * pitch + ahead / kVector;
        to[t][half] = exists && t * left_less + half * (kTileRows / 2) < left
                          ? ptx::load_streamed(from)
                          : zero_vector();
      }
    }
  }
};

/// Rows of x: this lane's in column tile j is row 8 j + g.
template <bool kNormed>
struct OperandRows {
  const bf16* x;  // row 0 at k = first_k
  int first_k;
  int end_k;
  int m;
  int pitch;

  /// Its 8 elements at k, 0 where there are none.
  __device__ __forceinline__ uint4 load(int tile, int k) const {
    const int row = tile * kTileColumns + lane_row();
    const bf16* from = x + (row * pitch + (k - first_k));
    const bool exists = row < m && k < end_k;
    if constexpr (kNormed) {
      return exists ? *reinterpret_cast<const uint4*>(from) : zero_vector();
    } else {
      return exists ? ptx::load_cached(from) : zero_vector();
    }
  }
};

/// The two products of one step. Lane (g, c) holds k = 8 c .. 8 c + 7 of its rows: elements 0 to 3
/// are what it contributes to the first product, 4 to 7 to the second. That is k in another order,
/// but in the same one in both operands.
template <int kRowTiles, int kColumnTiles>
__device__ __forceinline__ void multiply(float (&sums)[kRowTiles][kColumnTiles][4], int tile,
                                         const uint4 (&w)[kRowTiles][2], const uint4& x) {
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
    ptx::mma_bf16(sums[t][tile], {w[t][0].x, w[t][1].x, w[t][0].y, w[t][1].y}, {x.x, x.y});
    ptx::mma_bf16(sums[t][tile], {w[t][0].z, w[t][1].z, w[t][0].w, w[t][1].w}, {x.z, x.w});
  }
}

template <int kRowTiles, int kColumnTiles>
__device__ __forceinline__ void clear(float (&sums)[kRowTiles][kColumnTiles][4]) {
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[t][j][i] = 0;
    }
  }
}

template <int kColumnTiles, int kRowTiles, bool kNormed>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    small_linear_kernel(Params p) {
  constexpr int kDepth = Plan<kColumnTiles, kRowTiles>::kWeights;
  constexpr int kXDepth = kNormed ? 0 : Plan<kColumnTiles, kRowTiles>::kX;
  constexpr bool kManyGroups = Plan<kColumnTiles, kRowTiles>::kManyGroups;
  constexpr int kPassK = slot_k(kDepth);
  LLM_DYN_SHARED(bf16, normed_x);
  ptx::let_successor_start();

  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane_k = kVector * (static_cast<int>(threadIdx.x) % 4);
  const int begin = static_cast<int>(blockIdx.y) * p.slice_k;
  const int end = min(p.weights.k, begin + p.slice_k);
  const int first_k = begin + warp * kChunk + lane_k;
  const int passes = ceil_div(end - begin, kPassK);

  int group = blockIdx.x;
  WeightRows<kRowTiles> rows(p, group, first_k);
  uint4 w[kDepth][kRowTiles][2];
#pragma unroll
  for (int i = 0; i < kDepth; ++i) rows.load(w[i], slot_k(i), first_k + slot_k(i) < end);

  if (p.weights.bias && threadIdx.x == 0) {
    ptx::prefetch_l2(p.weights.bias + first_row<kRowTiles>(p, group));
  }
  OperandRows<kNormed> operand{p.x, 0, end, p.m, p.weights.k};
  if constexpr (kNormed) {
    const NormWeights norm_weights(p.normed.weight, begin, end);
    ptx::wait_for_predecessor();
    norm_operand(normed_x, p, norm_weights, begin, end);
    operand = {normed_x, begin, end, p.m, p.normed_pitch};
  } else {
    ptx::wait_for_predecessor();
  }
  uint4 x[kXDepth > 0 ? kXDepth : 1][kColumnTiles];
  const auto load_x = [&](uint4(&to)[kColumnTiles], int k) {
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j) to[j] = operand.load(j, k);
  };
#pragma unroll
  for (int i = 0; i < kXDepth; ++i) load_x(x[i], first_k + slot_k(i));

  float sums[kRowTiles][kColumnTiles][4];
  clear(sums);
  for (int pass = 0;;) {
    const int k0 = first_k + pass * kPassK;
    const bool is_last_pass = ++pass == passes;
    const int next_group = group + static_cast<int>(gridDim.x);
    const bool is_last_group = !kManyGroups || next_group >= p.groups;
    // What the registers are refilled with: the next pass, or the next group's first one.
    int refill = k0 + kPassK;
    rows.row += kPassK / kVector;
    if (kManyGroups && is_last_pass) {
      refill = is_last_group ? end : first_k;
      rows = WeightRows<kRowTiles>(p, next_group, first_k);
    }
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      const int k = k0 + slot_k(i);
      if (k - lane_k < end) {
#pragma unroll
        for (int j = 0; j < kColumnTiles; ++j) {
          if constexpr (kXDepth > 0) {
            multiply(sums, j, w[i], x[i % kXDepth][j]);
          } else {
            multiply(sums, j, w[i], operand.load(j, k));
          }
        }
      }
      rows.load(w[i], slot_k(i), refill + slot_k(i) < end);
      if constexpr (kXDepth > 0) {
        const int ahead = i + kXDepth;
        load_x(x[i % kXDepth],
               ahead < kDepth ? k0 + slot_k(ahead) : refill + slot_k(ahead - kDepth));
      }
    }
    if (!is_last_pass) continue;
    write_group<kColumnTiles, kRowTiles>(p, group, sums, !is_last_group);
    if (is_last_group) return;
    group = next_group;
    pass = 0;
    clear(sums);
  }
}

int row_tiles(const LinearWeights& weights) { return ceil_div(weights.n, kTileRows); }

int num_slices(const LinearWeights& weights) {
  return row_tiles(weights) <= kMaxSplitTiles && weights.k >= kMinSplitK ? kMaxSlices : 1;
}

/// The counters at the head of the scratch memory: as much for all weights, so that the sums of one
/// launch never lie where another counts.
constexpr size_t kArrivalsBytes = 512;
static_assert(kMaxSplitTiles * sizeof(unsigned) <= kArrivalsBytes);

int num_multiprocessors() {
  int device = 0;
  int count = 0;
  LLM_CUDA(cudaGetDevice(&device));
  LLM_CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

template <int kColumnTiles, int kRowTiles, bool kNormed>
void launch_variant(Params p, Queue queue) {
  const bool gated = p.epilogue == Epilogue::kSiluMul;
  const int slices = num_slices(p.weights);
  p.groups =
      gated ? ceil_div(p.weights.n / 2, kTileRows) : ceil_div(p.weights.n, kRowTiles * kTileRows);
  int blocks = p.groups;
  if (Plan<kColumnTiles, kRowTiles>::kManyGroups) {
    // As many as run at once, but all with the same number of groups or one less.
    const int places = kBlocksPerMultiprocessor * num_multiprocessors() / slices;
    blocks = ceil_div(p.groups, ceil_div(p.groups, places));
  }
  LaunchConfig config;
  config.grid = dim3(blocks, slices);
  config.block = kThreads;
  if (kNormed) config.shared_bytes = sizeof(bf16) * p.m * p.normed_pitch;
  config.stream = queue.stream;
  config.overlaps_predecessor = queue.overlaps;
  LLM_LAUNCH(config, (small_linear_kernel<kColumnTiles, kRowTiles, kNormed>), p);
}

/// Two row tiles a block: gate and up rows; many rows of x, to read them half as often; or enough
/// rows of W.
bool takes_two_tiles(const Params& p) {
  return p.epilogue == Epilogue::kSiluMul || p.m > 4 * kTileColumns || p.weights.n >= kManyRows;
}

void launch_plain(const Params& p, Queue queue) {
  const bool two = takes_two_tiles(p);
  if (p.m <= kTileColumns) {
    two ? launch_variant<1, 2, false>(p, queue) : launch_variant<1, 1, false>(p, queue);
  } else if (p.m <= 2 * kTileColumns) {
    two ? launch_variant<2, 2, false>(p, queue) : launch_variant<2, 1, false>(p, queue);
  } else if (p.m <= 4 * kTileColumns) {
    two ? launch_variant<4, 2, false>(p, queue) : launch_variant<4, 1, false>(p, queue);
  } else {
    launch_variant<8, 2, false>(p, queue);
  }
}

int slice_k(const LinearWeights& weights) {
  return ceil_div(ceil_div(weights.k, kChunk), num_slices(weights)) * kChunk;
}

/// 32 modulo 64: neighbouring rows lie in different banks.
int normed_pitch(const LinearWeights& weights) { return slice_k(weights) + kStep; }

void launch_normed(Params p, Queue queue) {
  p.normed_pitch = normed_pitch(p.weights);
  takes_two_tiles(p) ? launch_variant<1, 2, true>(p, queue) : launch_variant<1, 1, true>(p, queue);
}

}  // namespace

int fused_norm_rows(const LinearWeights& weights) {
  const int fit = kMaxNormedBytes / static_cast<int>(sizeof(bf16) * normed_pitch(weights));
  return fit < kMaxFusedNormRows ? fit : kMaxFusedNormRows;
}

size_t small_linear_scratch_bytes(const LinearWeights& weights) {
  const int slices = num_slices(weights);
  if (slices == 1) return 0;
  // A block with two row tiles may have one that isn't there.
  const size_t tiles = ceil_div(row_tiles(weights), 2) * 2;
  return kArrivalsBytes + sizeof(float) * slices * tiles * kTileRows * kMaxSmallRows;
}

void launch_small_linear(void* out, Epilogue epilogue, const SmallOperand& x, int m,
                         const LinearWeights& weights, void* scratch, Queue queue) {
  if (m == 0 || weights.n == 0) return;
  const int slices = num_slices(weights);
  if (m < 0 || m > (x.x ? kMaxSmallRows : fused_norm_rows(weights))) {
    check_cuda(cudaErrorInvalidValue, "launch_small_linear: rows");
  }
  if (weights.n < 0 || weights.k <= 0 || weights.k % kVector != 0 ||
      (epilogue == Epilogue::kSiluMul && weights.n % 2 != 0)) {
    check_cuda(cudaErrorInvalidValue, "launch_small_linear: n or k");
  }
  if (slices > 1 && !scratch) check_cuda(cudaErrorInvalidValue, "launch_small_linear: scratch");
  Params p{};
  p.out = out;
  p.epilogue = epilogue;
  p.x = x.x;
  p.normed = x.normed;
  p.m = m;
  p.weights = weights;
  p.slice_k = slice_k(weights);
  p.arrivals = static_cast<unsigned*>(scratch);
  if (slices > 1) {
    p.partial_sums = reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + kArrivalsBytes);
  }
  x.x ? launch_plain(p, queue) : launch_normed(p, queue);
}

}  // namespace llm
