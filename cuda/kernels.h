// The kernels' launchers: raw device pointers, sizes already checked by the caller, output first,
// queue last. Every matrix is dense and row-major, every pointer 16-byte aligned, rows too: widths
// of BF16 matrices are multiples of 8.
//
// What is rounded where, the same as on the CPU with `--act bf16`: hidden states, q/k/v and logits
// are float32; the operands of matrix products and of attention's two products are BF16; all sums
// are float32.
#pragma once

#include "backend/sampled_id.h"
#include "backend/sampling_rule.h"
#include "cuda/rt.h"

namespace llm {

using bf16 = __nv_bfloat16;

/// cudaErrorNoKernelImageForDevice where the build has no code for the current device (rows.cu).
cudaError_t kernel_image_status();

// ---- Rows (rows.cu) ----

/// The step's input ids. Some are known to the device alone.
struct InputIds {
  const int32_t* given = nullptr;      // [num_tokens]; ~i is sampled[i].id
  const SampledId* sampled = nullptr;  // by the step before; may be missing if none is used
  int32_t* known = nullptr;            // [num_tokens] all of them: written
};

/// hidden[num_tokens, width] = table[ids].
void launch_embed(float* hidden, const bf16* table, const InputIds& ids, int num_tokens, int width,
                  Queue queue);

/// RMSNorm of float32 rows, x / sqrt(mean(x^2) + eps) * weight, rounded to BF16.
/// Row i of the result is of hidden[row_indices[i]], or of hidden[i] without indices.
struct NormedRows {
  const float* hidden = nullptr;         // [.., width]
  const int32_t* row_indices = nullptr;  // [num_rows] or none
  const float* weight = nullptr;         // [width]
  float eps = 0;
};

/// out[num_rows, width].
void launch_rms_norm(bf16* out, const NormedRows& in, int num_rows, int width, Queue queue);

/// out[num_rows, width] = silu(gate) * up, where row i of gate_up is [gate(width) | up(width)].
void launch_silu_mul(bf16* out, const float* gate_up, int num_rows, int width, Queue queue);

/// out[num_rows, n] += bias[n].
void launch_add_bias(float* out, const float* bias, int num_rows, int n, Queue queue);

// ---- Matrix products: y[m, n] = x[m, k] W[n, k]^T + bias ----

struct LinearWeights {
  const bf16* weight = nullptr;  // [n, k]
  const float* bias = nullptr;   // [n] or none
  int n = 0;
  int k = 0;  // a multiple of 8
};

enum class Epilogue {
  kStore,    // float32 out[m, n] = y
  kAdd,      // float32 out[m, n] += y
  kSiluMul,  // BF16 out[m, n / 2] = silu(y[:, :n / 2]) * y[:, n / 2:]
};

/// Most rows of one launch of the small product.
inline constexpr int kMaxSmallRows = 64;
/// Most rows that the small product norms itself with any weights.
inline constexpr int kMaxFusedNormRows = 8;

/// The operand: BF16 rows x[m, k], or float32 rows that are normed on the way (m at most
/// fused_norm_rows()).
struct SmallOperand {
  const bf16* x = nullptr;
  NormedRows normed;  // used if x is null
};

/// Most rows that the small product norms itself with these weights: fewer than kMaxFusedNormRows
/// where they don't fit in half a multiprocessor's shared memory together.
int fused_norm_rows(const LinearWeights& weights);

/// Bytes that `scratch` of launch_small_linear() needs for these weights; zero-filled once, and
/// left zero-filled where the kernel counts in it.
size_t small_linear_scratch_bytes(const LinearWeights& weights);

/// For few rows (m at most kMaxSmallRows; linear_small.cu): reads each weight once. out is float32
/// or BF16 as the epilogue says. Every output is one sum in an order that depends on (n, k) alone:
/// bit-identical for every m, for every other row, and for a fused or separate norm.
void launch_small_linear(void* out, Epilogue epilogue, const SmallOperand& x, int m,
                         const LinearWeights& weights, void* scratch, Queue queue);

/// For many rows (gemm.cu), where cuBLASLt is missing: kStore or kAdd.
void launch_gemm(float* out, Epilogue epilogue, const bf16* x, int m, const LinearWeights& weights,
                 Queue queue);

// ---- Attention ----

enum class KvType { kBF16, kF8E4M3, kI8 };

/// One layer's cache and a step's rows. A cache block of one KV head is [16 tokens, head_dim]
/// elements (padded as kv_layout.h says), then for 8-bit types 16 float32 scales. Keys are stored
/// normed and rotated.
struct AttentionArgs {
  bf16* out = nullptr;            // [T, num_heads * head_dim]
  const float* qkv = nullptr;     // [T, (num_heads + 2 num_kv_heads) * head_dim]
  const float* q_norm = nullptr;  // [head_dim] or none (then k_norm too)
  const float* k_norm = nullptr;
  float norm_eps = 0;
  const float* rope_cos = nullptr;  // [max_positions, head_dim / 2]
  const float* rope_sin = nullptr;
  std::byte* k_cache = nullptr;
  std::byte* v_cache = nullptr;
  KvType kv_type = KvType::kBF16;
  int64_t block_bytes = 0;  // of all KV heads of one plane
  int64_t head_bytes = 0;   // of one
  int num_heads = 0;
  int num_kv_heads = 0;                      // num_heads / num_kv_heads is at most 8
  int head_dim = 0;                          // at most 256, a multiple of 8
  const int32_t* positions = nullptr;        // [T]
  const int32_t* slot_mapping = nullptr;     // [T] block * 16 + offset; -1 = padding
  const int32_t* query_start_loc = nullptr;  // [B + 1]
  const int32_t* seq_lens = nullptr;         // [B] with this step's tokens
  const int32_t* block_tables = nullptr;     // [B, max_blocks]
  int max_blocks = 0;
};

/// Consecutive rows of one sequence whose queries share the reads of keys and values.
struct AttentionTile {
  int32_t seq = 0;
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t split_size = 0;  // decode: tokens of one split, decode_split_size() of these rows
};

/// Positions below this have short splits.
inline constexpr int kShortSplitsEnd = 1024;

/// Tokens that one block of decode attention reads, by the row's own position only, so that the
/// order of its sums depends on nothing else.
constexpr int decode_split_size(int position) { return position < kShortSplitsEnd ? 64 : 256; }

/// Rows of one decode tile: they fill the 8 columns of a tensor-core product.
constexpr int decode_tile_rows(int num_heads, int num_kv_heads) {
  return 8 / (num_heads / num_kv_heads);
}

struct MemoryRange {
  const std::byte* begin = nullptr;
  int64_t bytes = 0;
};

struct DecodeAttention {
  const AttentionTile* tiles = nullptr;  // device, [num_tiles]; without rows: padding
  int num_tiles = 0;
  int max_splits = 0;  // of any tile
  /// Zero-filled once; left zero-filled where the kernel counts in it.
  void* scratch = nullptr;
  /// Whether this step's keys and values are taken from qkv and appended to the cache on the way;
  /// else launch_kv_append() came before.
  bool appends = true;
  /// Brought into L2 on the way: the weights that the next launches read. 16-byte aligned, whole
  /// 16 bytes.
  MemoryRange next_weights[2];
};

size_t decode_attention_scratch_bytes(const AttentionArgs& args, int num_tiles, int max_splits);

/// Split-KV attention of few rows a sequence (attention_decode.cu). Each row's result depends only
/// on its own query, its position and the cached bits up to it.
void launch_decode_attention(const AttentionArgs& args, const DecodeAttention& decode, Queue queue);

/// Norms, rotates and appends keys and values of rows [first_row, first_row + num_rows); where
/// queries is given, also writes their queries, normed, rotated and scaled by 1 / sqrt(head_dim),
/// to queries[num_rows, num_heads * head_dim] (attention_prefill.cu).
void launch_kv_append(const AttentionArgs& args, bf16* queries, int first_row, int num_rows,
                      Queue queue);

/// Rows of one prefill tile.
inline constexpr int kPrefillTileRows = 64;

/// FlashAttention-2 over the paged cache, causal, ragged; queries as launch_kv_append() wrote them,
/// row first_row first. Each row's result depends only on its own query, its position and the
/// cached bits up to it.
void launch_prefill_attention(const AttentionArgs& args, const bf16* queries, int first_row,
                              const AttentionTile* tiles, int num_tiles, Queue queue);

// ---- Sampling (sample.cu, logprobs.cu) ----

/// One row of logits: what changes from step to step, in device memory. cuda/sample_rows.h makes
/// it.
struct DeviceSampleRow {
  DrawRule rule;
  Penalties penalties;
  uint64_t counter = 0;  // ids generated before this one
  int64_t logits_row = 0;
  int32_t num_ids = 0;  // ids below it may be drawn; 0 = no row: nothing but id 0 is written
  int32_t first_penalised = 0;  // the ids that penalties change: a range of SampleArgs::penalised
  int32_t num_penalised = 0;
  /// Where in input_ids the last id of the output is, if the ranges don't count it yet, since the
  /// host didn't know it; or -1.
  int32_t pending_at = -1;
  int32_t num_top = -1;  // ids of most probable wanted by launch_logprobs(), or -1 for no logprobs
};

struct SampleArgs {
  SampledId* sampled = nullptr;           // [num_rows]
  const float* logits = nullptr;          // [.., width], any width up to 2^22
  const DeviceSampleRow* rows = nullptr;  // [num_rows]
  const IdCount* penalised = nullptr;     // no id twice in a row's range
  const int32_t* input_ids = nullptr;
  int num_rows = 0;
  int width = 0;
  /// Zero-filled once; left zero-filled where the kernels count in it.
  void* scratch = nullptr;
};

/// Most rows of one launch.
inline constexpr int kMaxSampleRows = 4096;

/// For launch_sample() and launch_logprobs() of up to these rows.
size_t sample_scratch_bytes(int num_rows, int width);

/// The id that sample_row() (backend/sampling.h) draws from each row. All rows in one launch, whose
/// grid depends on num_rows and width alone. Logits stay as they are.
void launch_sample(const SampleArgs& args, Queue queue);

/// Most ids of RowLogprobs::top.
inline constexpr int kMaxTopLogprobs = 20;

/// What the log-probabilities of a row are made of (cuda/sample_rows.h). Without a fault.
struct RowLogprobs {
  uint64_t total = 0;  // sum of exp(logit - largest) over the row's width, in units of 2^-40
  float largest = 0;
  float chosen = 0;                       // the sampled id's logit
  int32_t top_ids[kMaxTopLogprobs] = {};  // num_top of them, the most probable first
  float top_logits[kMaxTopLogprobs] = {};
};

/// Of the rows that want it (num_top from 0 to kMaxTopLogprobs), after launch_sample() with the
/// same arguments: out[num_rows], in which other rows stay as they are. Of the raw logits.
void launch_logprobs(RowLogprobs* out, const SampleArgs& args, Queue queue);

}  // namespace llm
