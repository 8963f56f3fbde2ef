// Kernels per instruction set for everything but the matrix products: norms, rotation, and
// attention over the paged cache. Raw pointers; the caller has checked the shapes.
//
// The cache. A block holds kKvBlockSize = 16 tokens. Per block and KV head, with D = head_dim
// rounded up to kKvLanes:
//   BF16  K [D/2][16][2]   tokens in the lanes, pairs of dimensions
//         V [16/2][D][2]   dimensions in the lanes, pairs of tokens
//   F32   K [D][16]        V [16][D]
//   FP8 E4M3 and INT8 as BF16, and behind them a float32 scale for each of the 16 tokens: the
//         value is element times scale, the largest magnitude of a token's head has the largest
//         element (448, 127)
// so that both products of attention stream their operand in order and need no reduction over
// lanes. Dimensions past head_dim are zero.
//
// Order of accumulation, the same for every batch, chunking, block table and thread count:
//   score(q, t) = sum over d ascending (BF16: over pairs, inside the dot instruction), one chain
//   tokens are taken in splits of kKvSplit; inside a split: maximum, p = exp(score - maximum),
//   the sum of p over lanes t mod kLanes and then over lanes, and out[d] = sum over t ascending
//   (BF16: over pairs of tokens, p rounded to BF16); splits are merged in ascending order.
// Elements of 8 bits are exact in BF16 and go its way; a token's K scale multiplies its score, its
// V scale its p before the rounding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/kv_layout.h"
#include "base/cpu_info.h"

namespace llm {

/// Tokens whose scores share one maximum.
inline constexpr int64_t kKvSplit = 256;

/// Queries that one call of `attend` takes.
inline constexpr int64_t kMaxTileQueries = 32;

/// Running result of one query over the splits seen so far; out is not yet divided by sum.
struct AttendState {
  float maximum;  // of the scores; meaningless while sum == 0
  float sum;      // of exp(score - maximum)
  float* out;     // [padded head_dim]
};

/// One tile of queries of one KV head against one split of one sequence's tokens.
struct AttendArgs {
  const void* queries;         // [num_queries, D], BF16 or float like the cache, scaled
  const int32_t* limits;       // [num_queries] tokens that the query sees: its position + 1
  int64_t num_queries;         // <= kMaxTileQueries
  int64_t head_dim_padded;     // D
  const int32_t* block_table;  // ids of the split's blocks
  const std::byte* k;          // cache of the layer, at this head's place in block 0
  const std::byte* v;
  int64_t block_stride;             // bytes from a block to the next, all heads
  int64_t first_token;              // of the split; a multiple of kKvSplit
  const float* k_scales = nullptr;  // [kKvSplit] of each token's key, or none
  const float* v_scales = nullptr;  // and value; both or neither
  float* scores;                    // workspace [num_queries, kKvSplit]
  uint16_t* weights;                // workspace [num_queries, kKvSplit] BF16
  AttendState* states;              // [num_queries] results for this split alone, written;
                                    // sum = 0 where the query sees none of its tokens
};

struct RowKernels {
  /// y[n] = x[n] / sqrt(mean(x^2) + eps) * weight[n]. y may be x.
  void (*rms_norm)(float* y, const float* x, const float* weight, int64_t n, float eps);
  /// x[2 * half]: pairs (x[i], x[i + half]) turned by the angle with cos[i], sin[i].
  void (*rotate)(float* x, const float* cos, const float* sin, int64_t half);
  /// Rounds x[n] * scale to BF16 (nearest even).
  void (*scale_to_bf16)(uint16_t* y, const float* x, float scale, int64_t n);
  /// Widens n 8-bit elements to BF16, which holds them exactly; n is a multiple of kKvLanes.
  void (*expand_i8)(uint16_t* y, const std::byte* x, int64_t n);
  void (*expand_f8e4m3)(uint16_t* y, const std::byte* x, int64_t n);
  void (*attend_bf16)(const AttendArgs& args);
  void (*attend_f32)(const AttendArgs& args);
  /// Adds the state of the next split: both to the larger maximum, then summed. D values in out.
  void (*merge)(AttendState& into, const AttendState& split, int64_t head_dim_padded);
};

/// The kernels of an instruction set that this build has.
const RowKernels& row_kernels(Isa isa);

}  // namespace llm
