// Attention on the CPU: q/k norm, rotation, append to the paged cache, and causal attention of
// prefill and decode rows alike. The cache's layout and the order of accumulation are those of
// row_kernels.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/row_kernels.h"
#include "base/thread_pool.h"

namespace llm {

class CpuAttention {
 public:
  CpuAttention(ThreadPool& pool, const RowKernels& kernels);

  /// out[T, q] = attention over qkv[T, q + 2 kv]; see Backend::attention.
  void run(float* out, const float* qkv, const AttentionParams& params, const KvCache& cache,
           const Batch& batch);

 private:
  /// Queries of one sequence and KV head that are computed together. A query is one row's one head;
  /// the queries of a KV head are numbered row by row.
  struct Tile {
    int64_t seq;
    int64_t kv_head;
    int64_t first_query;
    int64_t num_queries;
    int64_t num_splits;     // of kKvSplit tokens, up to the last one that any query sees
    int64_t first_partial;  // index of split 0's states in partials_
  };
  /// What one thread needs for one tile.
  struct Scratch {
    std::vector<float> scores;        // [kMaxTileQueries, kKvSplit]
    std::vector<uint16_t> weights;    // [kMaxTileQueries, kKvSplit]
    std::vector<float> out;           // [2, kMaxTileQueries, D]: running result, one split's
    std::vector<AttendState> states;  // [2, kMaxTileQueries]
    std::vector<int32_t> limits;      // [kMaxTileQueries]
    std::vector<uint16_t> elements;   // [2, kKvSplit * D]: keys and values of 8 bits, as BF16
    std::vector<float> scales;        // [2, kKvSplit]: theirs
    void fit(const KvCacheSpec& spec);
  };

  void prepare_rows(const float* qkv, const AttentionParams& params, const KvCache& cache,
                    const Batch& batch);
  template <typename Element>
  void append(std::byte* k_block, std::byte* v_block, const float* k, const float* v,
              int64_t offset, bool last, int64_t head_dim) const;
  void expand_split(int64_t head_offset, std::span<const int32_t> blocks, Scratch& scratch,
                    const KvCacheSpec& spec, const KvLayer& layer) const;
  void make_tiles(const AttentionParams& params, const Batch& batch);
  void attend_split(const Tile& tile, int64_t split, Scratch& scratch, AttendState* states,
                    const AttentionParams& params, const KvCache& cache, const Batch& batch) const;
  void write_result(const Tile& tile, const AttendState* states, float* out,
                    const AttentionParams& params, const Batch& batch) const;

  ThreadPool* pool_;
  const RowKernels* kernels_;
  Buffer queries_;  // [kv_heads, T, group, D] BF16 or, like the cache, F32; rotated and scaled
  std::vector<Tile> tiles_;
  std::vector<Scratch> scratch_;
  std::vector<AttendState> partials_;  // one per tile, split and query, when splits run apart
  Buffer partial_out_;                 // [partials, D]
};

}  // namespace llm
