#include "cuda/step_arrays.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include "base/error.h"

namespace llm {
namespace {

constexpr size_t kAlignedInts = 4;  // 16 bytes

/// Appends the values, padded to `count`; returns where they begin.
size_t append(std::vector<int32_t>& packed, std::span<const int32_t> values, int64_t count,
              int32_t padding = 0) {
  packed.resize((packed.size() + kAlignedInts - 1) / kAlignedInts * kAlignedInts);
  const size_t at = packed.size();
  packed.insert(packed.end(), values.begin(), values.end());
  packed.resize(at + static_cast<size_t>(count), padding);
  return at;
}

/// The tables with more columns and rows.
std::vector<int32_t> padded_tables(const Batch& batch, const StepShape& shape) {
  std::vector<int32_t> tables(static_cast<size_t>(shape.seqs * shape.max_blocks));
  for (int64_t seq = 0; seq < batch.num_seqs(); ++seq) {
    const auto own = batch.block_tables.subspan(static_cast<size_t>(seq * batch.max_blocks),
                                                static_cast<size_t>(batch.max_blocks));
    std::copy(own.begin(), own.end(), tables.begin() + seq * shape.max_blocks);
  }
  return tables;
}

std::span<const int32_t> ints_of(const std::vector<AttentionTile>& tiles) {
  static_assert(sizeof(AttentionTile) == kAlignedInts * sizeof(int32_t));
  return {reinterpret_cast<const int32_t*>(tiles.data()), tiles.size() * kAlignedInts};
}

int64_t int_count(const std::vector<AttentionTile>& tiles) { return std::ssize(ints_of(tiles)); }

/// Rows [begin, end) of one sequence, cut where the size of a split changes and after tile_rows.
void add_decode_tiles(std::vector<AttentionTile>& tiles, const Batch& batch, int seq, int begin,
                      int end, int tile_rows) {
  for (int row = begin; row < end;) {
    const int split = decode_split_size(batch.positions[static_cast<size_t>(row)]);
    int count = 1;
    while (count < tile_rows && row + count < end &&
           decode_split_size(batch.positions[static_cast<size_t>(row + count)]) == split) {
      ++count;
    }
    tiles.push_back({seq, row, count, split});
    row += count;
  }
}

int most_splits(const std::vector<AttentionTile>& tiles, const Batch& batch) {
  int most = 0;
  for (const AttentionTile& tile : tiles) {
    const size_t last = static_cast<size_t>(tile.first_row + tile.num_rows - 1);
    most = std::max(most, batch.positions[last] / tile.split_size + 1);
  }
  return most;
}

/// Of any row below so many tokens.
int splits_below(int64_t tokens) {
  int most = 1;
  for (const int64_t last : {std::min<int64_t>(tokens, kShortSplitsEnd) - 1, tokens - 1}) {
    const int position = static_cast<int>(last);
    most = std::max(most, position / decode_split_size(position) + 1);
  }
  return most;
}

}  // namespace

int64_t padded_step_rows(int64_t rows) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
}

StepShape StepShape::exact(const Batch& batch) {
  return {batch.num_tokens(), batch.num_seqs(), batch.num_logits(), batch.max_blocks};
}

StepShape StepShape::of_decode(const Batch& batch) {
  constexpr int64_t kFewestBlocks = 16;
  const int64_t rows = padded_step_rows(batch.num_tokens());
  return {rows, rows, rows, padded_step_rows(std::max(kFewestBlocks, batch.max_blocks)), true};
}

StepArrays::StepArrays() {
  for (Source& source : sources_) source.copied = make_event();
}

void StepArrays::make_tiles(const Batch& batch, int decode_tile_rows, bool invariant) {
  decode_tiles_.clear();
  prefill_tiles_.clear();
  for (int seq = 0; seq < batch.num_seqs(); ++seq) {
    const int begin = batch.query_start_loc[static_cast<size_t>(seq)];
    const int end = batch.query_start_loc[static_cast<size_t>(seq) + 1];
    if (begin < batch.num_decode_rows) {
      add_decode_tiles(decode_tiles_, batch, seq, begin, end, decode_tile_rows);
    } else if (invariant) {
      add_decode_tiles(prefill_tiles_, batch, seq, begin, end, decode_tile_rows);
    } else {
      for (int row = begin; row < end; row += kPrefillTileRows) {
        prefill_tiles_.push_back({seq, row, std::min(kPrefillTileRows, end - row), 0});
      }
    }
  }
}

void StepArrays::upload(const Batch& batch, const StepShape& step_shape, int decode_tile_rows,
                        bool invariant, cudaStream_t stream) {
  shape = step_shape;
  make_tiles(batch, decode_tile_rows, invariant);
  if (shape.padded) decode_tiles_.resize(static_cast<size_t>(shape.rows), {0, 0, 0, 1});
  const int32_t tokens = static_cast<int32_t>(batch.num_tokens());
  packed_.clear();
  const size_t ids = append(packed_, batch.input_ids, shape.rows);
  const size_t known = append(packed_, {}, shape.rows);
  const size_t places = append(packed_, batch.positions, shape.rows);
  const size_t slots = append(packed_, batch.slot_mapping, shape.rows, -1);
  const size_t starts = append(packed_, batch.query_start_loc, shape.seqs + 1, tokens);
  const size_t lengths = append(packed_, batch.seq_lens, shape.seqs);
  const size_t tables = append(packed_, padded_tables(batch, shape), shape.seqs * shape.max_blocks);
  const size_t wanted = append(packed_, batch.logits_indices, shape.logits);
  const size_t decode_at = append(packed_, ints_of(decode_tiles_), int_count(decode_tiles_));
  const size_t prefill_at = append(packed_, ints_of(prefill_tiles_), int_count(prefill_tiles_));

  const int64_t bytes = static_cast<int64_t>(packed_.size() * sizeof(int32_t));
  Source& source = sources_[std::exchange(next_source_, 1 - next_source_)];
  LLM_CUDA(cudaEventSynchronize(source.copied.get()));  // two steps ago
  const int64_t room = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)));
  std::byte* host = source.memory.reserve(room);
  std::memcpy(host, packed_.data(), static_cast<size_t>(bytes));
  place_ = device_.reserve(room, stream);
  LLM_CUDA(
      cudaMemcpyAsync(place_, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream));
  LLM_CUDA(cudaEventRecord(source.copied.get(), stream));

  int32_t* base = reinterpret_cast<int32_t*>(place_);
  input_ids = base + ids;
  known_ids = base + known;
  positions = base + places;
  slot_mapping = base + slots;
  query_start_loc = base + starts;
  seq_lens = base + lengths;
  block_tables = base + tables;
  logits_indices = base + wanted;
  const int decode_splits = shape.padded ? splits_below(shape.max_blocks * kKvBlockSize)
                                         : most_splits(decode_tiles_, batch);
  decode = {reinterpret_cast<const AttentionTile*>(base + decode_at),
            static_cast<int>(decode_tiles_.size()), decode_splits};
  prefill = {reinterpret_cast<const AttentionTile*>(base + prefill_at),
             static_cast<int>(prefill_tiles_.size()),
             invariant ? most_splits(prefill_tiles_, batch) : 0};
}

}  // namespace llm
