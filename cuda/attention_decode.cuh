// Decode attention's way from the paged cache and this step's qkv into shared memory: what a block
// of attention_decode.cu has to do, what it holds, and how its warps fetch keys and values.
#pragma once

#include "cuda/attention.cuh"

namespace llm::attention::decode {

inline constexpr int kWarps = 4;
inline constexpr int kThreads = 32 * kWarps;
inline constexpr int kColumns = 8;
inline constexpr int kKeys = 0;  // planes
inline constexpr int kValues = 1;

/// Maximum of a column's scores and the sum of its weights relative to it.
struct Softmax {
  float maximum;
  float sum;
};

template <int kDims, KvType kType>
struct Shared {
  static constexpr int kRowBytes = kDims * kElementBytes<kType>;
  static constexpr int kPitch = Tile<kRowBytes>::kPitch;
  static constexpr int kTileBytes = kKvBlockSize * kPitch;
  static constexpr int kStages = kRowBytes <= 256 ? 2 : 1;  // blocks of a warp under way
  static constexpr int kQueryPitch = kDims + 8;             // rows begin at different banks

  /// Keys and values; when those are used up, the warps' results out[kWarps][kColumns][kDims].
  alignas(128) std::byte tiles[2][kWarps][kStages][kTileBytes];
  /// Of 8-bit types: cached ones and this step's (a copy under way must not meet a store).
  alignas(16) float scales[2][kWarps][kStages][2][kKvBlockSize];
  alignas(16) bf16 queries[kColumns][kQueryPitch];
  Softmax softmax[kWarps][kColumns];
  bool is_last;
};

/// What a block has to do: tokens [first_token, end) of the tile's sequence.
struct Work {
  AttentionTile tile;
  int kv_head;
  int num_splits;
  int first_token;
  int end;         // what no row of the tile sees begins here, or the next split
  int cached_end;  // from here on, tokens come from qkv:
  int new_row;     // that of token new_token
  int new_token;
};

__device__ __forceinline__ Work make_work(const AttentionArgs& args,
                                          const DecodeAttention& decode) {
  Work work;
  work.tile = decode.tiles[blockIdx.z];
  work.kv_head = static_cast<int>(blockIdx.y);
  int limit = 0;
  for (int i = 0; i < work.tile.num_rows; ++i) {
    limit = max(limit, row_limit(args, work.tile.first_row + i));
  }
  const int size = work.tile.split_size;
  // A tile without rows is padding; rows that see nothing still write their zeros.
  work.num_splits = work.tile.num_rows == 0 ? 0 : max(1, (limit + size - 1) / size);
  work.first_token = static_cast<int>(blockIdx.x) * size;
  work.end = min(limit, work.first_token + size);
  const int seq = work.tile.seq;
  work.new_row = args.query_start_loc[seq];
  work.new_token = args.seq_lens[seq] - (args.query_start_loc[seq + 1] - work.new_row);
  work.cached_end = decode.appends ? min(work.end, work.new_token) : work.end;
  return work;
}

/// How a warp gets its blocks into shared memory.
template <int kDims, KvType kType>
struct BlockReader {
  using Tiles = Shared<kDims, kType>;

  const AttentionArgs& args;
  const Work& work;
  Tiles& shared;
  int warp;
  int lane;
  int num_blocks;     // of this warp
  int32_t block_ids;  // lane i: of the warp's block i; splits have no more than 32 a warp

  __device__ __forceinline__ BlockReader(const AttentionArgs& args, const Work& work, Tiles& shared)
      : args(args),
        work(work),
        shared(shared),
        warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32) {
    const int tokens = max(0, work.end - work.first_token);
    const int all_blocks = (tokens + kKvBlockSize - 1) / kKvBlockSize;
    num_blocks = (all_blocks - warp + kWarps - 1) / kWarps;
    block_ids = 0;
    if (lane < num_blocks) {
      const int64_t of_seq = static_cast<int64_t>(work.tile.seq) * args.max_blocks;
      block_ids = args.block_tables[of_seq + token_of(lane) / kKvBlockSize];
    }
  }

  /// First token of the warp's block i.
  __device__ __forceinline__ int token_of(int i) const {
    return work.first_token + (warp + i * kWarps) * kKvBlockSize;
  }
  template <int kPlane>
  __device__ __forceinline__ Tile<Tiles::kRowBytes> tile_of(int i) const {
    return {shared.tiles[kPlane][warp][i % Tiles::kStages]};
  }

  /// The scale of a token of block i.
  template <int kPlane>
  __device__ __forceinline__ float scale_of(int i, int offset) const {
    const int token = token_of(i) + offset;
    if (token >= work.end) return 0;
    return scales_of<kPlane>(i, token >= work.cached_end)[offset];
  }
  template <int kPlane>
  __device__ __forceinline__ float* scales_of(int i, bool is_new) const {
    return shared.scales[kPlane][warp][i % Tiles::kStages][is_new];
  }

  /// Requests the cached tokens of block i, if there is one; what lies past the end becomes zeros.
  template <int kPlane>
  __device__ __forceinline__ void copy_cached(int i) const {
    constexpr int kUnits = Tiles::kRowBytes / 16;
    constexpr int kRows = 32 / kUnits;  // that the warp copies at once
    const int32_t block = __shfl_sync(kFullWarp, block_ids, i % 32);
    if (i >= num_blocks) return;
    const int row_bytes = cache_dims(args.head_dim) * kElementBytes<kType>;
    const std::byte* from =
        (kPlane == kKeys ? args.k_cache : args.v_cache) + head_offset(args, block, work.kv_head);
    const int first_row = lane / kUnits;
    const int column = lane % kUnits * 16;
    std::byte* const to = tile_of<kPlane>(i).at(first_row, column);
    const int bytes = column < row_bytes ? 16 : 0;
    const std::byte* const lane_from = from + first_row * row_bytes + (bytes == 0 ? 0 : column);
    if (token_of(i) + kKvBlockSize <= work.cached_end) {
#pragma unroll
      for (int row = 0; row < kKvBlockSize; row += kRows) {
        ptx::cp_async_16(to + row * Tiles::kPitch, lane_from + row * row_bytes, bytes);
      }
    } else {
#pragma unroll 1
      for (int row = 0; row < kKvBlockSize; row += kRows) {
        const int token = token_of(i) + first_row + row;
        const bool is_cached = token < work.cached_end;
        if (!is_cached && token < work.end) continue;
        ptx::cp_async_16(to + row * Tiles::kPitch, is_cached ? lane_from + row * row_bytes : from,
                         is_cached ? bytes : 0);
      }
    }
    if constexpr (kHasScales<kType>) {
      if (lane < kKvBlockSize / 4) {
        const int cached = min(4, max(0, work.cached_end - token_of(i) - 4 * lane));
        ptx::cp_async_16(scales_of<kPlane>(i, false) + 4 * lane,
                         from + kKvBlockSize * row_bytes + 16 * lane, cached * 4);
      }
    }
  }

  /// Puts this step's tokens into block i, if there are any, and appends those of the tile's rows
  /// to the cache.
  template <int kPlane>
  __device__ __forceinline__ void insert_new(int i) const {
    if (i >= num_blocks) return;
    const Tile<Tiles::kRowBytes> tile = tile_of<kPlane>(i);
    const int begin = token_of(i);
    const int end = min(begin + kKvBlockSize, work.end);
    const int heads = args.num_heads + (kPlane == kKeys ? 0 : args.num_kv_heads) + work.kv_head;
    const int64_t width =
        static_cast<int64_t>(args.num_heads + 2 * args.num_kv_heads) * args.head_dim;
    for (int token = max(begin, work.cached_end); token < end; ++token) {
      const int row = work.new_row + token - work.new_token;
      HeadValues x = load_head(args.qkv + row * width + heads * args.head_dim, args.head_dim, lane);
      if (kPlane == kKeys) norm_and_rotate(x, args, args.k_norm, token, lane);
      float scale = 1;
      if constexpr (kHasScales<kType>) {
        scale = take_scale<kType>(x);
        if (lane == 0) scales_of<kPlane>(i, true)[token - begin] = scale;
      }
      store_head<kType>(x, args.head_dim, kDims, lane, [&](int element) {
        return tile.at(token - begin, element * kElementBytes<kType>);
      });
      const int slot = args.slot_mapping[row];
      const bool is_mine =
          row >= work.tile.first_row && row < work.tile.first_row + work.tile.num_rows && slot >= 0;
      if (is_mine) {
        append_token<kType>(args, kPlane == kKeys ? args.k_cache : args.v_cache, slot, work.kv_head,
                            x, scale, lane);
      }
    }
  }
};

}  // namespace llm::attention::decode
