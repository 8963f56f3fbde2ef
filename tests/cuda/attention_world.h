// Random sequences for the tests of attention: their q/k/v rows, norms, tables and paged cache, and
// steps that run some of their rows.
#pragma once

#include <cstdint>
#include <vector>

#include "attention_reference.h"
#include "cuda_test.h"

namespace llm {

/// Both planes of a cache.
struct CacheBytes {
  std::vector<uint8_t> k;
  std::vector<uint8_t> v;

  bool operator==(const CacheBytes&) const = default;
};

/// Rows of a step: positions first .. first + count - 1 of a sequence; the last `padding` of them
/// have no slot.
struct RowRange {
  int seq = 0;
  int first = 0;
  int count = 1;
  int padding = 0;
};

/// Bits of BF16 results, [rows, num_heads * head_dim].
using OutBits = std::vector<uint16_t>;

class AttentionWorld {
 public:
  /// Sequences of these lengths.
  AttentionWorld(const AttentionShape& shape, std::vector<int> lengths, uint32_t seed = 1);

  const float* row(int seq, int position) const;
  float* row(int seq, int position);
  int slot(int seq, int position) const;
  int num_blocks() const { return static_cast<int>(free_block_) + 1; }
  /// The cache with all tokens of all sequences, appended by launch_kv_append() in one go; 0xff
  /// where no token is.
  CacheBytes full_cache() const;
  /// The same without the tokens from the ranges' first ones on (0xff bytes instead).
  CacheBytes cache_before(const CacheBytes& full, const std::vector<RowRange>& ranges) const;
  /// And with the ranges' rows, padding not.
  CacheBytes cache_after(const CacheBytes& full, const std::vector<RowRange>& ranges) const;
  /// A row's key, normed and rotated, or value, not yet rounded.
  attention_reference::Values exact_key(int seq, int position, int kv_head) const;
  /// A row's query, rounded.
  attention_reference::Values exact_query(int seq, int position, int head) const;

  AttentionShape shape;
  std::vector<int> lengths;
  std::vector<float> qkv;  // all sequences' rows
  std::vector<float> q_norm;
  std::vector<float> k_norm;
  std::vector<float> rope_cos;  // [longest, head_dim / 2]
  std::vector<float> rope_sin;
  std::vector<int32_t> block_tables;  // [sequences, max_blocks], as scattered as can be
  int max_blocks = 0;

  static constexpr float kEps = 1e-6f;

 private:
  attention_reference::Values normed_head(int seq, int position, int head,
                                          const std::vector<float>& norm) const;
  void copy_tokens(CacheBytes& to, const CacheBytes* from, int seq, int begin, int end) const;

  size_t free_block_ = 0;  // belongs to no sequence
};

/// A step on the device.
class AttentionStep {
 public:
  AttentionStep(const AttentionWorld& world, const CacheBytes& cache, std::vector<RowRange> ranges);

  AttentionArgs args();
  int num_rows() const { return static_cast<int>(positions_.size()); }

  /// Runs decode attention; with a scratch of its own unless one is given. REQUIREs that nothing
  /// beside the results is written.
  OutBits decode(bool appends = true, DeviceArray<uint8_t>* scratch = nullptr);
  /// Appends and runs prefill attention.
  OutBits prefill();
  /// The queries that launch_kv_append() wrote for prefill().
  const OutBits& queries() const { return queries_; }
  CacheBytes cache() const { return {k_cache_.host(), v_cache_.host()}; }

 private:
  OutBits results();
  std::vector<AttentionTile> tiles(bool of_decode) const;

  const AttentionWorld& world_;
  std::vector<RowRange> ranges_;
  std::vector<int32_t> positions_;
  OutBits queries_;
  DeviceArray<uint8_t> k_cache_, v_cache_;
  DeviceArray<float> qkv_, q_norm_, k_norm_, cos_, sin_;
  DeviceArray<int32_t> device_positions_, slots_, query_start_loc_, seq_lens_, block_tables_;
  DeviceArray<uint16_t> out_;
};

/// Most splits of any of these rows.
int splits_of(const std::vector<RowRange>& ranges);

/// Row `row` of the results, all heads.
OutBits row_of(const OutBits& out, const AttentionShape& shape, int row);

/// CHECKs a step's results against the reference, given the cache after it.
void check_results(const AttentionWorld& world, const CacheBytes& cache,
                   const std::vector<RowRange>& ranges, const OutBits& out);

}  // namespace llm
