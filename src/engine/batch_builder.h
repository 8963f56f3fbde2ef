// The arrays of one step, from the sequences that take part in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "engine/sequence.h"

namespace llm {

/// The next num_tokens ids of a sequence, from num_cached_tokens() on.
struct ScheduledRows {
  const Sequence* sequence = nullptr;
  int64_t num_tokens = 0;
  bool all_logits = false;   // of every row
  bool last_logits = false;  // of the last row
};

/// Keeps the arrays between steps, so that they are allocated once.
class BatchBuilder {
 public:
  /// Decoding sequences come first; num_decode_seqs says how many. Block tables must already cover
  /// the rows. The Batch points into this object until the next build().
  Batch build(std::span<const ScheduledRows> scheduled, int64_t num_decode_seqs);

 private:
  void append(const ScheduledRows& rows);

  std::vector<int32_t> input_ids_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> slot_mapping_;
  std::vector<int32_t> query_start_loc_;
  std::vector<int32_t> seq_lens_;
  std::vector<int32_t> block_tables_;
  std::vector<int32_t> logits_indices_;
};

}  // namespace llm
