// Prefill attention: out = softmax(q k^T / sqrt(head_dim)) v for many rows of a sequence, causal,
// and before it the append of the rows' keys and values to the paged cache.
//
// kv_append: grid (row, heads / 4), a warp per head: reads float32 q, k or v, norms and rotates it
// (v not), writes it in the cache's type, or queries as BF16.
//
// prefill_attention (FlashAttention-2): grid (query head, tile of 64 rows), the tiles with most
// keys first, four warps of 16 rows. Steps of 64 keys (32 for head_dim 256), counted from the
// sequence's first token, of which the next one's keys and values are fetched meanwhile: BF16 by
// cp.async, 8-bit types through registers, widened to BF16.
//   S [16 rows, keys] = Q K^T      Q the A operand, K by ldmatrix as it is, m16n8k16
//   O [16 rows, dims] += P V       P straight from S's registers, V by ldmatrix.trans
// A running maximum and sum per row. Keys past the tile's last row are zeros, keys past a row are
// masked, and such a step leaves the row's bits alone, so they don't depend on where a chunk ends.
// (One exception: a BF16 value that isn't finite reaches rows up to a step before it, as 0 times
// it, if it is of the same chunk.)
//
// Bytes moved: queries and results once, keys and values once per tile and query head (mostly from
// L2). Shared memory: 99 KB at most.
#include "cuda/attention.cuh"

namespace llm {
namespace {

using namespace attention;

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;

// ---- Append ----

template <KvType kType>
__global__ void __launch_bounds__(kThreads, 2)
    kv_append_kernel(AttentionArgs args, bf16* queries, int first_row, float scale) {
  ptx::let_successor_start();
  ptx::wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int all_heads = args.num_heads + 2 * args.num_kv_heads;
  const int head = static_cast<int>(blockIdx.y) * kWarps + static_cast<int>(threadIdx.x) / 32 +
                   (queries == nullptr ? args.num_heads : 0);
  if (head >= all_heads) return;
  const int64_t row = first_row + static_cast<int64_t>(blockIdx.x);
  HeadValues x =
      load_head(args.qkv + (row * all_heads + head) * args.head_dim, args.head_dim, lane);
  const bool is_query = head < args.num_heads;
  const bool is_key = !is_query && head < args.num_heads + args.num_kv_heads;
  if (is_query || is_key) {
    norm_and_rotate(x, args, is_query ? args.q_norm : args.k_norm, args.positions[row], lane);
  }
  if (is_query) {
    scale_head(x, scale);
    bf16* to = queries + (static_cast<int64_t>(blockIdx.x) * args.num_heads + head) * args.head_dim;
    store_head<KvType::kBF16>(x, args.head_dim, args.head_dim, lane, [&](int element) {
      return reinterpret_cast<std::byte*>(to + element);
    });
    return;
  }
  const int slot = args.slot_mapping[row];
  if (slot < 0) return;
  float token_scale = 1;
  if constexpr (kHasScales<kType>) token_scale = take_scale<kType>(x);
  append_token<kType>(args, is_key ? args.k_cache : args.v_cache, slot,
                      (head - args.num_heads) % args.num_kv_heads, x, token_scale, lane);
}

// ---- Attention ----

template <int kDims>
constexpr int kStepKeys = kDims <= 128 ? 64 : 32;

template <int kDims, KvType kType>
struct Shared {
  static constexpr int kRowBytes = 2 * kDims;
  static constexpr int kKeys = kStepKeys<kDims>;

  alignas(128) std::byte queries[kPrefillTileRows * Tile<kRowBytes>::kPitch];
  /// Keys and values of this step and the next; of 8-bit types a token's scale is after its row.
  alignas(128) std::byte tiles[2][2][kKeys * Tile<kRowBytes>::kPitch];
};

/// Fetches the steps' keys (plane 0) and values (plane 1); all threads together.
template <int kDims, KvType kType>
struct StepReader {
  using Tiles = Shared<kDims, kType>;
  static constexpr int kKeys = kStepKeys<kDims>;
  static constexpr int kRowUnits = kDims * kElementBytes<kType> / 16;  // of 16 bytes, in the cache
  static constexpr int kUnits = kKeys * kRowUnits / kThreads;          // of one thread

  const AttentionArgs& args;
  Tiles& shared;
  const int32_t* block_table;
  int kv_head;
  int end;                                     // keys from here on are zeros
  uint4 held[kHasScales<kType> ? kUnits : 1];  // 8-bit elements and a scale on their way
  float held_scale;

  __device__ __forceinline__ StepReader(const AttentionArgs& args, Tiles& shared,
                                        const AttentionTile& tile, int kv_head, int end)
      : args(args),
        shared(shared),
        block_table(args.block_tables + static_cast<int64_t>(tile.seq) * args.max_blocks),
        kv_head(kv_head),
        end(end) {}

  __device__ __forceinline__ int num_steps() const { return (end + kKeys - 1) / kKeys; }
  template <int kPlane>
  __device__ __forceinline__ Tile<Tiles::kRowBytes> tile_of(int step) const {
    return {shared.tiles[kPlane][step % 2]};
  }

  /// Requests a step, if there is one.
  template <int kPlane>
  __device__ __forceinline__ void begin(int step) {
    if (step >= num_steps()) return;
    const std::byte* const cache = kPlane == 0 ? args.k_cache : args.v_cache;
    const int row_bytes = cache_dims(args.head_dim) * kElementBytes<kType>;
    const int column = thread_column();
    // What is held must have its registers by name; of copies, some at a time save registers.
#pragma unroll(kHasScales <kType> ? kUnits : 2)
    for (int i = 0; i < kUnits; ++i) {
      const int row = row_of(i);
      const bool reads = step * kKeys + row < end && column < row_bytes;
      const std::byte* from = cache;
      if (reads) from += head_of(step, row) + row % kKvBlockSize * row_bytes + column;
      if constexpr (kHasScales<kType>) {
        held[i] = reads ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
      } else {
        ptx::cp_async_16(tile_of<kPlane>(step).at(row, column), from, reads ? 16 : 0);
      }
    }
    if constexpr (kHasScales<kType>) {
      const int row = static_cast<int>(threadIdx.x);
      held_scale = 0;
      if (row < kKeys && step * kKeys + row < end) {
        const std::byte* scales = cache + head_of(step, row) + kKvBlockSize * row_bytes;
        held_scale = reinterpret_cast<const float*>(scales)[row % kKvBlockSize];
      }
    } else {
      ptx::cp_async_commit();
    }
  }

  /// After it and a barrier, both planes of the step are in shared memory.
  template <int kPlane>
  __device__ __forceinline__ void finish(int step) {
    if (step >= num_steps()) return;
    if constexpr (kHasScales<kType>) {
      const Tile<Tiles::kRowBytes> tile = tile_of<kPlane>(step);
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        const uint4 x = held[i];
        uint4* to = reinterpret_cast<uint4*>(tile.at(row_of(i), 2 * thread_column()));
        to[0] = widen_8(x.x, x.y);
        to[1] = widen_8(x.z, x.w);
      }
      if (static_cast<int>(threadIdx.x) < kKeys) {
        *tile.after_row(static_cast<int>(threadIdx.x)) = held_scale;
      }
    } else if constexpr (kPlane == 1) {
      ptx::cp_async_wait<0>();
    }
  }

 private:
  /// A thread copies the same 16 bytes of rows that are kRows apart.
  static constexpr int kRows = kThreads / kRowUnits;
  static_assert(kRows % kKvBlockSize == 0 || kKvBlockSize % kRows == 0);
  __device__ __forceinline__ static int row_of(int i) {
    return i * kRows + static_cast<int>(threadIdx.x / kRowUnits);
  }
  __device__ __forceinline__ static int thread_column() {
    return static_cast<int>(threadIdx.x % kRowUnits) * 16;
  }
  /// Where the KV head begins in a plane, of the block of a step's row.
  __device__ __forceinline__ uint64_t head_of(int step, int row) const {
    const int32_t block = block_table[step * (kKeys / kKvBlockSize) + row / kKvBlockSize];
    return head_offset(args, block, kv_head);
  }
  __device__ __forceinline__ static uint4 widen_8(uint32_t low, uint32_t high) {
    return {widen<kType, 0, 1>(low), widen<kType, 2, 3>(low), widen<kType, 0, 1>(high),
            widen<kType, 2, 3>(high)};
  }
};

/// 16 rows' running softmax and products. Lane (g, t) = (lane / 4, lane % 4) has rows g and g + 8;
/// of each 8 keys or dimensions, 2 t and 2 t + 1. Fragments [.][4]: row g's two, row g + 8's two.
template <int kDims, KvType kType>
struct Attention {
  static constexpr int kKeys = kStepKeys<kDims>;
  static constexpr int kSteps = kDims / 16;
  static constexpr bool kHoldsQueries = kDims <= 128;  // else they are read anew in every step
  using Scores = float[kKeys / 8][4];

  Tile<2 * kDims> query_tile{};
  int first_row;  // of the tile, the warp's first
  int lane;
  uint32_t queries[kHoldsQueries ? kSteps : 1][4];
  float out[kDims / 8][4] = {};
  float maximum[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};  // of this lane's keys
  int limit[2];       // keys that the rows see

  __device__ __forceinline__ void load_queries(uint32_t (&r)[4], int step) const {
    ptx::ldmatrix_x4(r, query_tile.at(first_row + lane % 16, 32 * step + lane / 16 * 16));
  }
  __device__ __forceinline__ void hold_queries() {
    if constexpr (kHoldsQueries) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) load_queries(queries[step], step);
    }
  }

  __device__ __forceinline__ void multiply_keys(Scores& scores, Tile<2 * kDims> keys) const {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      uint32_t q[4];
      if constexpr (kHoldsQueries) {
#pragma unroll
        for (int i = 0; i < 4; ++i) q[i] = queries[step][i];
      } else {
        load_queries(q, step);
      }
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {
        uint32_t r[4];
        ptx::ldmatrix_x4(r,
                         keys.at(16 * n + lane % 8 + lane / 16 * 8, 32 * step + lane / 8 % 2 * 16));
        ptx::mma_bf16(scores[2 * n], q, {r[0], r[1]});
        ptx::mma_bf16(scores[2 * n + 1], q, {r[2], r[3]});
      }
    }
  }

  /// Sets what the rows don't see of the keys from first_key on.
  __device__ __forceinline__ void mask(Scores& x, int first_key, float value) const {
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (first_key + 8 * n + lane % 4 * 2 + i % 2 >= limit[i / 2]) x[n][i] = value;
      }
    }
  }

  /// Multiplies with the keys' scales, or the values'.
  __device__ __forceinline__ void multiply_scales(Scores& x, Tile<2 * kDims> tile) const {
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float scale = *tile.after_row(8 * n + lane % 4 * 2 + i);
        x[n][i] *= scale;
        x[n][2 + i] *= scale;
      }
    }
  }

  /// Turns scores into weights of the running maximum.
  __device__ __forceinline__ void weigh(Scores& scores) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float largest = maximum[j];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
        largest = fmaxf(largest, fmaxf(scores[n][2 * j], scores[n][2 * j + 1]));
      }
      largest = fmaxf(largest, __shfl_xor_sync(kFullWarp, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(kFullWarp, largest, 2));
      const float factor = rescale_factor(maximum[j], largest);
      maximum[j] = largest;
      const float base = largest == -INFINITY ? 0.0f : largest;  // a row that sees nothing
      float weights = 0;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int i = 2 * j; i < 2 * j + 2; ++i) {
          scores[n][i] = exp_approx(scores[n][i] - base);
          weights += scores[n][i];
        }
      }
      sum[j] = fmaf(sum[j], factor, weights);
#pragma unroll
      for (int n = 0; n < kDims / 8; ++n) {
        out[n][2 * j] *= factor;
        out[n][2 * j + 1] *= factor;
      }
    }
  }

  __device__ __forceinline__ void add_values(const Scores& weights, Tile<2 * kDims> values) {
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      const float(&left)[4] = weights[2 * step];
      const float(&right)[4] = weights[2 * step + 1];
      const uint32_t p[4] = {pack_bf16(left[0], left[1]), pack_bf16(left[2], left[3]),
                             pack_bf16(right[0], right[1]), pack_bf16(right[2], right[3])};
#pragma unroll
      for (int n = 0; n < kDims / 16; ++n) {
        uint32_t r[4];
        ptx::ldmatrix_x4_trans(r, values.at(16 * step + lane % 16, 32 * n + lane / 16 * 16));
        ptx::mma_bf16(out[2 * n], p, {r[0], r[1]});
        ptx::mma_bf16(out[2 * n + 1], p, {r[2], r[3]});
      }
    }
  }

  /// A step: scores of its keys, -inf where a row doesn't see one; then their weights and values.
  __device__ __forceinline__ void score(Scores& scores, const StepReader<kDims, kType>& reader,
                                        int step) const {
    multiply_keys(scores, reader.template tile_of<0>(step));
    if constexpr (kHasScales<kType>) multiply_scales(scores, reader.template tile_of<0>(step));
    if (masks(step)) mask(scores, step * kKeys, -INFINITY);
  }
  __device__ __forceinline__ void add(Scores& scores, const StepReader<kDims, kType>& reader,
                                      int step) {
    weigh(scores);
    if constexpr (kHasScales<kType>) {
      multiply_scales(scores, reader.template tile_of<1>(step));
      if (masks(step)) mask(scores, step * kKeys, 0);  // the scale may be NaN
    }
    add_values(scores, reader.template tile_of<1>(step));
  }
  __device__ __forceinline__ bool masks(int step) const {
    return (step + 1) * kKeys > min(limit[0], limit[1]);
  }
};

/// Requests the tile's queries; rows that it doesn't have are zeros.
template <int kDims>
__device__ __forceinline__ void copy_queries(Tile<2 * kDims> to, const AttentionArgs& args,
                                             const bf16* queries, int num_rows) {
  constexpr int kRowUnits = kDims / 8;
#pragma unroll 4
  for (int i = 0; i < kPrefillTileRows * kRowUnits / kThreads; ++i) {
    const int row = (i * kThreads + static_cast<int>(threadIdx.x)) / kRowUnits;
    const int unit = (i * kThreads + static_cast<int>(threadIdx.x)) % kRowUnits;
    const bool reads = row < num_rows && unit * 8 < args.head_dim;
    const int64_t from =
        reads ? static_cast<int64_t>(row) * args.num_heads * args.head_dim + unit * 8 : 0;
    ptx::cp_async_16(to.at(row, 16 * unit), queries + from, reads ? 16 : 0);
  }
  ptx::cp_async_commit();
}

template <int kDims, KvType kType>
__global__ void __launch_bounds__(kThreads, 2)
    prefill_attention_kernel(AttentionArgs args, const bf16* queries, int first_row,
                             const AttentionTile* tiles) {
  using Tiles = Shared<kDims, kType>;
  LLM_DYN_SHARED(Tiles, shared);
  ptx::let_successor_start();
  ptx::wait_for_predecessor();
  const AttentionTile tile = tiles[gridDim.y - 1 - blockIdx.y];
  const int head = static_cast<int>(blockIdx.x);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;

  Attention<kDims, kType> attention;
  attention.query_tile = {shared->queries};
  attention.first_row = 16 * warp;
  attention.lane = lane;
  // The last row that isn't padding sees most.
  int end = 0;
  for (int row = lane; row < tile.num_rows; row += 32) {
    end = max(end, row_limit(args, tile.first_row + row));
  }
  end = __reduce_max_sync(kFullWarp, end);
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int row = 16 * warp + lane / 4 + 8 * j;
    attention.limit[j] = row < tile.num_rows ? row_limit(args, tile.first_row + row) : 0;
  }
  const int warp_end = __reduce_max_sync(kFullWarp, max(attention.limit[0], attention.limit[1]));

  const int64_t query_row = tile.first_row - first_row;
  copy_queries<kDims>(attention.query_tile, args,
                      queries + (query_row * args.num_heads + head) * args.head_dim, tile.num_rows);
  StepReader<kDims, kType> reader(args, *shared, tile, head / (args.num_heads / args.num_kv_heads),
                                  end);
  reader.template begin<0>(0);
  reader.template finish<0>(0);
  reader.template begin<1>(0);
  reader.template finish<1>(0);
  ptx::cp_async_wait<0>();
  __syncthreads();
  attention.hold_queries();
  for (int step = 0; step < reader.num_steps(); ++step) {
    const bool sees = step * Tiles::kKeys < warp_end;
    typename Attention<kDims, kType>::Scores scores = {};
    reader.template begin<0>(step + 1);
    if (sees) attention.score(scores, reader, step);
    reader.template finish<0>(step + 1);
    reader.template begin<1>(step + 1);
    if (sees) attention.add(scores, reader, step);
    reader.template finish<1>(step + 1);
    __syncthreads();
  }

#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int row = 16 * warp + lane / 4 + 8 * j;
    float sum = attention.sum[j];
    sum += __shfl_xor_sync(kFullWarp, sum, 1);
    sum += __shfl_xor_sync(kFullWarp, sum, 2);
    if (row >= tile.num_rows) continue;
    const float scale = sum == 0 ? 0.0f : 1.0f / sum;
    bf16* to = args.out +
               (static_cast<int64_t>(tile.first_row + row) * args.num_heads + head) * args.head_dim;
#pragma unroll
    for (int n = 0; n < kDims / 8; ++n) {
      if (8 * n >= args.head_dim) break;
      // Never -0, which a step that the row doesn't see would turn into 0.
      *reinterpret_cast<uint32_t*>(to + 8 * n + lane % 4 * 2) =
          pack_bf16(fmaf(attention.out[n][2 * j], scale, 0.0f),
                    fmaf(attention.out[n][2 * j + 1], scale, 0.0f));
    }
  }
}

template <KvType kType>
void launch_append(const AttentionArgs& args, bf16* queries, int first_row, int num_rows,
                   Queue queue) {
  const int heads = 2 * args.num_kv_heads + (queries == nullptr ? 0 : args.num_heads);
  LaunchConfig config;
  config.grid =
      dim3(static_cast<unsigned>(num_rows), static_cast<unsigned>((heads + kWarps - 1) / kWarps));
  config.block = kThreads;
  config.stream = queue.stream;
  config.overlaps_predecessor = queue.overlaps;
  LLM_LAUNCH(config, (kv_append_kernel<kType>), args, queries, first_row,
             query_scale(args.head_dim));
}

struct PrefillTiles {
  const AttentionTile* data;
  int count;
};

template <int kDims, KvType kType>
void launch_prefill(const AttentionArgs& args, const bf16* queries, int first_row,
                    PrefillTiles tiles, Queue queue) {
  LaunchConfig config;
  config.grid = dim3(static_cast<unsigned>(args.num_heads), static_cast<unsigned>(tiles.count));
  config.block = kThreads;
  config.shared_bytes = sizeof(Shared<kDims, kType>);
  config.stream = queue.stream;
  config.overlaps_predecessor = queue.overlaps;
  LLM_LAUNCH(config, (prefill_attention_kernel<kDims, kType>), args, queries, first_row,
             tiles.data);
}

}  // namespace

void launch_kv_append(const AttentionArgs& args, bf16* queries, int first_row, int num_rows,
                      Queue queue) {
  check_shape(args, "launch_kv_append: heads or head_dim");
  if (num_rows <= 0) return;
  switch (args.kv_type) {
    case KvType::kBF16:
      return launch_append<KvType::kBF16>(args, queries, first_row, num_rows, queue);
    case KvType::kF8E4M3:
      return launch_append<KvType::kF8E4M3>(args, queries, first_row, num_rows, queue);
    case KvType::kI8:
      return launch_append<KvType::kI8>(args, queries, first_row, num_rows, queue);
  }
}

void launch_prefill_attention(const AttentionArgs& args, const bf16* queries, int first_row,
                              const AttentionTile* tiles, int num_tiles, Queue queue) {
  check_shape(args, "launch_prefill_attention: heads or head_dim");
  if (num_tiles <= 0) return;
  if (num_tiles > kMaxGridYZ) {
    check_cuda(cudaErrorInvalidValue, "launch_prefill_attention: num_tiles");
  }
  for_instance(args, [&](auto dims, auto type) {
    launch_prefill<dims.value, type.value>(args, queries, first_row, {tiles, num_tiles}, queue);
  });
}

}  // namespace llm
