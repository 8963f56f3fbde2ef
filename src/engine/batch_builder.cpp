#include "engine/batch_builder.h"

#include <algorithm>

#include "base/error.h"

namespace llm {
namespace {

constexpr int32_t kNoBlock = -1;  // pads the shorter rows of block_tables

}  // namespace

ConstTensor rows_of(ConstTensor matrix, int64_t first, int64_t count) {
  const int64_t columns = matrix.shape[1];
  const int64_t row_bytes = byte_size(matrix.dtype, {columns});
  const std::byte* data = matrix.data == nullptr ? nullptr : matrix.data + first * row_bytes;
  return {data, matrix.dtype, {count, columns}};
}

Batch BatchBuilder::build(std::span<const ScheduledRows> scheduled, int64_t num_decode_seqs) {
  input_ids_.clear();
  positions_.clear();
  slot_mapping_.clear();
  query_start_loc_.assign(1, 0);
  seq_lens_.clear();
  logits_indices_.clear();
  for (const ScheduledRows& rows : scheduled) append(rows);

  int64_t max_blocks = 0;
  for (const int32_t length : seq_lens_) max_blocks = std::max(max_blocks, kv_blocks_for(length));
  block_tables_.assign(scheduled.size() * static_cast<size_t>(max_blocks), kNoBlock);
  auto row = block_tables_.begin();
  for (size_t i = 0; i < scheduled.size(); ++i, row += max_blocks) {
    const auto table = scheduled[i].sequence->block_table();
    std::copy_n(table.begin(), kv_blocks_for(seq_lens_[i]), row);
  }

  return {.input_ids = input_ids_,
          .positions = positions_,
          .slot_mapping = slot_mapping_,
          .query_start_loc = query_start_loc_,
          .seq_lens = seq_lens_,
          .block_tables = block_tables_,
          .max_blocks = max_blocks,
          .logits_indices = logits_indices_,
          .num_decode_rows = query_start_loc_[static_cast<size_t>(num_decode_seqs)]};
}

void BatchBuilder::append(const ScheduledRows& rows) {
  const Sequence& sequence = *rows.sequence;
  const int64_t begin = rows.begin;
  const int64_t end = begin + rows.num_tokens;
  const auto ids = sequence.ids_with_proposals();
  const bool pending = rows.pending_id >= 0;
  LLM_CHECK(rows.num_tokens > 0 && end <= std::ssize(ids) + (pending ? 1 : 0),
            "rows [{}, {}) of {}", begin, end, ids.size());
  LLM_CHECK(kv_blocks_for(end) <= static_cast<int64_t>(sequence.block_table().size()),
            "{} blocks for {} tokens", sequence.block_table().size(), end);
  for (int64_t i = begin; i < end; ++i) {
    const int32_t block = sequence.block_table()[static_cast<size_t>(i / kKvBlockSize)];
    if (i >= end - rows.num_logits) {
      logits_indices_.push_back(static_cast<int32_t>(input_ids_.size()));
    }
    input_ids_.push_back(i < std::ssize(ids) ? ids[static_cast<size_t>(i)] : ~rows.pending_id);
    positions_.push_back(static_cast<int32_t>(i));
    slot_mapping_.push_back(block * kKvBlockSize + static_cast<int32_t>(i % kKvBlockSize));
  }
  query_start_loc_.push_back(static_cast<int32_t>(input_ids_.size()));
  seq_lens_.push_back(static_cast<int32_t>(end));
}

}  // namespace llm
