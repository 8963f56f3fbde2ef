// The arrays of one step, from the sequences that take part in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "engine/sequence.h"

namespace llm {

/// Ids [begin, begin + num_tokens) of a sequence, its proposals included.
struct ScheduledRows {
  const Sequence* sequence = nullptr;
  int64_t begin = 0;
  int64_t num_tokens = 0;
  int64_t num_logits = 0;      // of the last rows
  bool prompt_logits = false;  // these are for Request::on_prompt_logits
  bool samples = false;        // the next id is chosen from the logits of the last rows
  int64_t max_proposals = 0;   // that may be added to the rows; there are blocks for them
  /// The row's id follows the sequence's known ones: the step before chooses it, in this row of its
  /// sample(). -1: all ids are known.
  int32_t pending_id = -1;
};

/// Rows [first, first + count) of a matrix, such as a step's logits.
ConstTensor rows_of(ConstTensor matrix, int64_t first, int64_t count);

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
