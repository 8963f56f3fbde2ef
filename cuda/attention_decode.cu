// Decode attention, split over the keys: out = softmax(q k^T / sqrt(head_dim)) v for a few rows of
// each sequence, with q/k norm, rotation and the append of this step's keys and values inside.
//
// Grid (split, KV head, tile), four warps. The tile's rows times the KV head's query heads are at
// most 8 columns. Warp w takes the blocks of 16 tokens w, w + 4, ... of its split:
//   S^T [16 tokens, 8 columns] = K Q^T        K by ldmatrix as the A operand, m16n8k16
//   O^T [dims, 8 columns] += V^T P^T          V by ldmatrix.trans, P turned by movmatrix
// with a running maximum and sum per column. Each warp copies its own blocks by cp.async, up to two
// ahead, so that no barrier is in the loop; this step's tokens it takes from qkv, rounded to the
// cache's type. The warps' results are merged in order; the last block of (tile, KV head) to arrive
// merges the splits, in order. Columns never mix, and a column skips the warps and splits in which
// it sees nothing, so that its result depends on its position alone. (One exception: a BF16 value
// of this step that isn't finite reaches the other rows of its tile, as 0 times it.)
//
// 8-bit elements are widened between shared memory and the operands, which numbers the dimensions
// of a product differently (operand_dim, value_dim); their scales multiply scores and weights.
//
// Cached keys are requested before the wait for the launch before, which writes qkv: they are older
// than the step, and steps don't overlap, since copies of their inputs lie between them.
//
// Bytes moved: the context's keys and values, once per tile. Shared memory: 75 KB at most.
#include "cuda/attention_decode.cuh"

namespace llm {
namespace {

using namespace attention;
using namespace attention::decode;

// The counters lie before everything else in the scratch, always as many: what one launch leaves
// there must not be another's partial results.
constexpr int kMaxCounters = 1 << 16;

/// The scratch. Partial results lie at [(tile, KV head), split, column].
struct Partials {
  int32_t* counters;  // [tile, KV head]: splits that have arrived
  Softmax* softmax;
  float* out;  // [.., kDims]
};

/// The block's queries, normed, rotated and scaled; zeros in the columns that are too many.
template <int kPitch>
__device__ __forceinline__ void prepare_queries(bf16 (&queries)[kColumns][kPitch],
                                                const AttentionArgs& args, const Work& work,
                                                float scale) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int group = args.num_heads / args.num_kv_heads;
  const int64_t width =
      static_cast<int64_t>(args.num_heads + 2 * args.num_kv_heads) * args.head_dim;
#pragma unroll
  for (int column = warp; column < kColumns; column += kWarps) {
    HeadValues x = {};
    if (column < work.tile.num_rows * group) {
      const int row = work.tile.first_row + column / group;
      const int head = work.kv_head * group + column % group;
      x = load_head(args.qkv + row * width + head * args.head_dim, args.head_dim, lane);
      norm_and_rotate(x, args, args.q_norm, args.positions[row], lane);
      scale_head(x, scale);
    }
    store_head<KvType::kBF16>(x, args.head_dim, kPitch - 8, lane, [&](int element) {
      return reinterpret_cast<std::byte*>(&queries[column][element]);
    });
  }
}

/// Dimension of a k16 step that a lane with t = lane % 4 holds in register i of an operand.
template <KvType kType>
__device__ __forceinline__ int operand_dim(int t, int i) {
  return kType == KvType::kBF16 ? 2 * t + 8 * i : 4 * t + 2 * i;
}

/// Dimension of an m16 step of the values that a lane with g = lane / 4 holds in its upper or lower
/// half.
template <KvType kType>
__device__ __forceinline__ int value_dim(int g, int upper) {
  return kType == KvType::kBF16 ? g + 8 * upper : 2 * g + upper;
}

/// Two A operands [16, 16] from four matrices: as they are, or of 8-bit elements, whose matrices
/// are [8, 16]: kFirst, kSecond are the bytes of r that become rows or columns 0 and 8.
template <KvType kType>
__device__ __forceinline__ void key_operands(uint32_t (&a)[2][4], const uint32_t (&r)[4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    a[i][0] = widen<kType, 0, 1>(r[2 * i]);
    a[i][1] = widen<kType, 0, 1>(r[2 * i + 1]);
    a[i][2] = widen<kType, 2, 3>(r[2 * i]);
    a[i][3] = widen<kType, 2, 3>(r[2 * i + 1]);
  }
}

template <KvType kType>
__device__ __forceinline__ void value_operands(uint32_t (&a)[2][4], const uint32_t (&r)[4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    a[i][0] = widen<kType, 0, 2>(r[i]);
    a[i][1] = widen<kType, 1, 3>(r[i]);
    a[i][2] = widen<kType, 0, 2>(r[i + 2]);
    a[i][3] = widen<kType, 1, 3>(r[i + 2]);
  }
}

/// One warp's running softmax and products. Lane (g, t) = (lane / 4, lane % 4) has columns 2 t and
/// 2 t + 1, in them tokens g and g + 8 of a block and dimensions value_dim of each 16.
template <int kDims, KvType kType>
struct Attention {
  static constexpr int kSteps = kDims / 16;

  uint32_t queries[kSteps][2];  // B operands
  float out[kSteps][4] = {};
  float maximum[2];
  float sum[2] = {};  // of this lane's tokens
  int limit[2];       // tokens that the columns see

  __device__ __forceinline__ void begin(const Shared<kDims, kType>& shared,
                                        const AttentionArgs& args, const Work& work, int lane) {
    const int g = lane / 4;
    const int t = lane % 4;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        queries[step][i] = *reinterpret_cast<const uint32_t*>(
            &shared.queries[g][16 * step + operand_dim<kType>(t, i)]);
      }
    }
    const int group = args.num_heads / args.num_kv_heads;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int row = (2 * t + j) / group;
      limit[j] = row < work.tile.num_rows ? row_limit(args, work.tile.first_row + row) : 0;
      maximum[j] = -INFINITY;
    }
  }

  /// scores[j], scores[2 + j]: tokens g and g + 8 of column 2 t + j.
  __device__ __forceinline__ void multiply_keys(float (&scores)[4],
                                                Tile<Shared<kDims, kType>::kRowBytes> keys,
                                                int lane) const {
    constexpr int kLoads = Shared<kDims, kType>::kRowBytes / 32;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      uint32_t r[4];
      ptx::ldmatrix_x4(r, keys.at(lane % 16, 32 * i + lane / 16 * 16));
      if constexpr (kType == KvType::kBF16) {
        ptx::mma_bf16(scores, r, queries[i]);
      } else {
        uint32_t a[2][4];
        key_operands<kType>(a, r);
        ptx::mma_bf16(scores, a[0], queries[2 * i]);
        ptx::mma_bf16(scores, a[1], queries[2 * i + 1]);
      }
    }
  }

  /// Turns the scores of the tokens from `token` on into weights of the running maximum; those of
  /// what a column doesn't see are 0.
  __device__ __forceinline__ void weigh(float (&scores)[4], int token, int lane) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const bool sees_low = token + lane / 4 < limit[j];
      const bool sees_high = token + lane / 4 + 8 < limit[j];
      float largest =
          fmaxf(sees_low ? scores[j] : -INFINITY, sees_high ? scores[2 + j] : -INFINITY);
#pragma unroll
      for (int apart = 4; apart < 32; apart *= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(kFullWarp, largest, apart));
      }
      largest = fmaxf(maximum[j], largest);
      const float factor = rescale_factor(maximum[j], largest);
      scores[j] = sees_low ? exp_approx(scores[j] - largest) : 0.0f;
      scores[2 + j] = sees_high ? exp_approx(scores[2 + j] - largest) : 0.0f;
      sum[j] = fmaf(sum[j], factor, scores[j] + scores[2 + j]);
      maximum[j] = largest;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        out[step][j] *= factor;
        out[step][2 + j] *= factor;
      }
    }
  }

  /// weights[j], weights[2 + j]: as the scores.
  __device__ __forceinline__ void add_values(const float (&weights)[4],
                                             Tile<Shared<kDims, kType>::kRowBytes> values,
                                             int lane) {
    constexpr int kLoads = Shared<kDims, kType>::kRowBytes / 32;
    const uint32_t p[2] = {ptx::movmatrix_trans(pack_bf16(weights[0], weights[1])),
                           ptx::movmatrix_trans(pack_bf16(weights[2], weights[3]))};
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      uint32_t r[4];
      ptx::ldmatrix_x4_trans(r, values.at(lane % 8 + lane / 16 * 8, 32 * i + lane / 8 % 2 * 16));
      if constexpr (kType == KvType::kBF16) {
        ptx::mma_bf16(out[i], r, p);
      } else {
        uint32_t a[2][4];
        value_operands<kType>(a, r);
        ptx::mma_bf16(out[2 * i], a[0], p);
        ptx::mma_bf16(out[2 * i + 1], a[1], p);
      }
    }
  }
};

/// The warp's blocks, one after the other.
template <int kDims, KvType kType>
__device__ __forceinline__ void attend_blocks(Attention<kDims, kType>& attention,
                                              const BlockReader<kDims, kType>& reader) {
  // Per block two copies, keys and values; as many are under way as fit.
  constexpr int kStages = Shared<kDims, kType>::kStages;
  constexpr int kPending = 2 * kStages - 1;
  const int lane = reader.lane;
  for (int i = 0; i < reader.num_blocks; ++i) {
    ptx::cp_async_wait<kPending>();
    __syncwarp();
    float scores[4] = {};
    attention.multiply_keys(scores, reader.template tile_of<kKeys>(i), lane);
    if constexpr (kHasScales<kType>) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        scores[j] *= reader.template scale_of<kKeys>(i, lane / 4 + j / 2 * 8);
      }
    }
    __syncwarp();
    reader.template copy_cached<kKeys>(i + kStages);
    reader.template insert_new<kKeys>(i + kStages);
    ptx::cp_async_commit();

    attention.weigh(scores, reader.token_of(i), lane);
    ptx::cp_async_wait<kPending>();
    __syncwarp();
    if constexpr (kHasScales<kType>) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        // Where a column sees nothing, the scale may be NaN.
        const float scale = reader.template scale_of<kValues>(i, lane / 4 + j / 2 * 8);
        const bool sees = reader.token_of(i) + lane / 4 + j / 2 * 8 < attention.limit[j % 2];
        scores[j] = sees ? scores[j] * scale : 0.0f;
      }
    }
    attention.add_values(scores, reader.template tile_of<kValues>(i), lane);
    __syncwarp();
    reader.template copy_cached<kValues>(i + kStages);
    reader.template insert_new<kValues>(i + kStages);
    ptx::cp_async_commit();
  }
}

// ---- Merges ----

/// Four dimensions of a column.
struct Quad {
  float x[4];
};

/// The sum of n parts, each scaled from its own maximum to the largest; parts that saw nothing are
/// left out. softmax(i) and out(i) are part i's.
template <typename SoftmaxOf, typename OutOf>
__device__ __forceinline__ Softmax merge_parts(Quad& sum, int n, SoftmaxOf softmax, OutOf out) {
  Softmax merged = {-INFINITY, 0};
  for (int i = 0; i < n; ++i) merged.maximum = fmaxf(merged.maximum, softmax(i).maximum);
  sum = {};
  for (int i = 0; i < n; ++i) {
    const Softmax part = softmax(i);
    if (part.sum == 0) continue;
    const float factor = rescale_factor(part.maximum, merged.maximum);
    const float4 x = out(i);
    merged.sum = fmaf(part.sum, factor, merged.sum);
    sum.x[0] = fmaf(x.x, factor, sum.x[0]);
    sum.x[1] = fmaf(x.y, factor, sum.x[1]);
    sum.x[2] = fmaf(x.z, factor, sum.x[2]);
    sum.x[3] = fmaf(x.w, factor, sum.x[3]);
  }
  return merged;
}

/// Where out[column][dim] of a warp lies in shared memory: so that neither of the two ways to write
/// a fragment meets a bank twice.
__device__ __forceinline__ int merge_place(int column, int dim) { return dim ^ (8 * (column / 2)); }

/// Leaves the warp's result in shared memory.
template <int kDims, KvType kType>
__device__ __forceinline__ void store_warp(Softmax (&softmax)[kColumns],
                                           float (&out)[kColumns][kDims],
                                           const Attention<kDims, kType>& attention, int lane) {
  const int g = lane / 4;
  const int t = lane % 4;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int column = 2 * t + j;
    float sum = attention.sum[j];
#pragma unroll
    for (int apart = 4; apart < 32; apart *= 2) sum += __shfl_xor_sync(kFullWarp, sum, apart);
    if (g == 0) softmax[column] = {attention.maximum[j], sum};
#pragma unroll
    for (int step = 0; step < kDims / 16; ++step) {
      const float lower = attention.out[step][j];
      const float upper = attention.out[step][2 + j];
      float* to = &out[column][merge_place(column, 16 * step + value_dim<kType>(g, 0))];
      if constexpr (kType == KvType::kBF16) {
        *to = lower;
        out[column][merge_place(column, 16 * step + value_dim<kType>(g, 1))] = upper;
      } else {
        *reinterpret_cast<float2*>(to) = {lower, upper};
      }
    }
  }
}

/// out = sum / softmax.sum, rounded; 0 for a row that saw nothing, never -0.
__device__ __forceinline__ void store_result(const AttentionArgs& args, const Work& work,
                                             int column, int dim, const Quad& sum,
                                             const Softmax& softmax) {
  if (dim >= args.head_dim) return;
  const int group = args.num_heads / args.num_kv_heads;
  const int64_t row = work.tile.first_row + column / group;
  const int head = work.kv_head * group + column % group;
  const float scale = softmax.sum == 0 ? 0.0f : 1.0f / softmax.sum;
  float x[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] = fmaf(sum.x[i], scale, 0.0f);
  bf16* to = args.out + (row * args.num_heads + head) * args.head_dim + dim;
  store_elements<KvType::kBF16>(reinterpret_cast<std::byte*>(to), x);
}

/// The block's share of what the next launches read, by one thread.
__device__ __forceinline__ void prefetch_share(const MemoryRange& range) {
  constexpr int64_t kRequest = 16 * 1024;
  const int64_t blocks = int64_t{gridDim.x} * gridDim.y * gridDim.z;
  const int64_t own =
      blockIdx.x + int64_t{gridDim.x} * (blockIdx.y + int64_t{gridDim.y} * blockIdx.z);
#pragma unroll 1
  for (int64_t at = own * kRequest; at < range.bytes; at += blocks * kRequest) {
    const int64_t left = range.bytes - at;
    ptx::prefetch_l2_range(range.begin + at,
                           static_cast<uint32_t>(left < kRequest ? left : kRequest));
  }
}

template <int kDims, KvType kType>
__global__ void __launch_bounds__(kThreads, 2)
    decode_attention_kernel(AttentionArgs args, DecodeAttention decode, Partials partials,
                            float scale) {
  using Tiles = Shared<kDims, kType>;
  LLM_DYN_SHARED(Tiles, shared);
  ptx::let_successor_start();
  if (threadIdx.x == 0) {
    prefetch_share(decode.next_weights[0]);
    prefetch_share(decode.next_weights[1]);
  }
  const Work work = make_work(args, decode);
  if (static_cast<int>(blockIdx.x) >= work.num_splits) {
    ptx::wait_for_predecessor();
    return;
  }
  const BlockReader<kDims, kType> reader(args, work, *shared);
  if (!decode.appends) ptx::wait_for_predecessor();
#pragma unroll
  for (int i = 0; i < Tiles::kStages; ++i) {
    reader.template copy_cached<kKeys>(i);
    ptx::cp_async_commit();
    reader.template copy_cached<kValues>(i);
    ptx::cp_async_commit();
  }
  if (decode.appends) ptx::wait_for_predecessor();

  prepare_queries(shared->queries, args, work, scale);
  for (int i = 0; i < Tiles::kStages; ++i) {
    reader.template insert_new<kKeys>(i);
    reader.template insert_new<kValues>(i);
  }
  __syncthreads();
  Attention<kDims, kType> attention;
  attention.begin(*shared, args, work, reader.lane);
  attend_blocks(attention, reader);

  // The tiles have been read: the warps' results take their place.
  static_assert(sizeof(shared->tiles) >= sizeof(float) * kWarps * kColumns * kDims);
  using WarpOut = float[kColumns][kDims];
  WarpOut* const out = reinterpret_cast<WarpOut*>(&shared->tiles);
  __syncthreads();
  store_warp(shared->softmax[reader.warp], out[reader.warp], attention, reader.lane);
  __syncthreads();

  const int num_columns = work.tile.num_rows * (args.num_heads / args.num_kv_heads);
  const int num_quads = num_columns * (kDims / 4);
  const int counter = static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y);
  const int64_t first_part = static_cast<int64_t>(counter) * gridDim.x;
  for (int i = static_cast<int>(threadIdx.x); i < num_quads; i += kThreads) {
    const int column = i / (kDims / 4);
    const int dim = i % (kDims / 4) * 4;
    Quad sum;
    const Softmax softmax = merge_parts(
        sum, kWarps, [&](int warp) { return shared->softmax[warp][column]; },
        [&](int warp) {
          return *reinterpret_cast<const float4*>(&out[warp][column][merge_place(column, dim)]);
        });
    if (work.num_splits == 1) {
      store_result(args, work, column, dim, sum, softmax);
    } else {
      const int64_t part = (first_part + blockIdx.x) * kColumns + column;
      *reinterpret_cast<float4*>(partials.out + part * kDims + dim) = {sum.x[0], sum.x[1], sum.x[2],
                                                                       sum.x[3]};
      if (dim == 0) partials.softmax[part] = softmax;
    }
  }
  if (work.num_splits == 1) return;

  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    shared->is_last = atomicAdd(&partials.counters[counter], 1) == work.num_splits - 1;
    if (shared->is_last) partials.counters[counter] = 0;
  }
  __syncthreads();
  if (!shared->is_last) return;
  __threadfence();
  for (int i = static_cast<int>(threadIdx.x); i < num_quads; i += kThreads) {
    const int column = i / (kDims / 4);
    const int dim = i % (kDims / 4) * 4;
    const auto part = [&](int split) { return (first_part + split) * kColumns + column; };
    Quad sum;
    const Softmax softmax = merge_parts(
        sum, work.num_splits,
        [&](int split) {
          const float2 s = __ldcg(reinterpret_cast<const float2*>(partials.softmax) + part(split));
          return Softmax{s.x, s.y};
        },
        [&](int split) {
          return __ldcg(reinterpret_cast<const float4*>(partials.out + part(split) * kDims + dim));
        });
    store_result(args, work, column, dim, sum, softmax);
  }
}

template <int kDims, KvType kType>
void launch_decode(const AttentionArgs& args, const DecodeAttention& decode, Queue queue) {
  const size_t num_parts =
      static_cast<size_t>(decode.num_tiles) * args.num_kv_heads * decode.max_splits * kColumns;
  Partials partials;
  partials.counters = static_cast<int32_t*>(decode.scratch);
  partials.softmax = reinterpret_cast<Softmax*>(partials.counters + kMaxCounters);
  partials.out = reinterpret_cast<float*>(partials.softmax + num_parts);
  LaunchConfig config;
  config.grid =
      dim3(static_cast<unsigned>(decode.max_splits), static_cast<unsigned>(args.num_kv_heads),
           static_cast<unsigned>(decode.num_tiles));
  config.block = kThreads;
  config.shared_bytes = sizeof(Shared<kDims, kType>);
  config.stream = queue.stream;
  config.overlaps_predecessor = queue.overlaps;
  LLM_LAUNCH(config, (decode_attention_kernel<kDims, kType>), args, decode, partials,
             query_scale(args.head_dim));
}

}  // namespace

size_t decode_attention_scratch_bytes(const AttentionArgs& args, int num_tiles, int max_splits) {
  const size_t parts = static_cast<size_t>(num_tiles) * args.num_kv_heads * max_splits * kColumns;
  const size_t part_bytes = sizeof(Softmax) + sizeof(float) * instance_dims(args.head_dim);
  return sizeof(int32_t) * kMaxCounters + parts * part_bytes;
}

void launch_decode_attention(const AttentionArgs& args, const DecodeAttention& decode,
                             Queue queue) {
  check_shape(args, "launch_decode_attention: heads or head_dim");
  if (decode.num_tiles <= 0) return;
  const bool fits = decode.num_tiles * static_cast<int64_t>(args.num_kv_heads) <= kMaxCounters &&
                    decode.num_tiles <= kMaxGridYZ && decode.max_splits > 0;
  if (!fits) check_cuda(cudaErrorInvalidValue, "launch_decode_attention: num_tiles or max_splits");
  for_instance(args, [&](auto dims, auto type) {
    launch_decode<dims.value, type.value>(args, decode, queue);
  });
}

}  // namespace llm
