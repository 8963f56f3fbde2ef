#include "cuda/step_arrays.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"

namespace llm {
namespace {

constexpr size_t kAlignedInts = 4;  // 16 bytes

/// Appends the values; returns where they begin.
size_t append(std::vector<int32_t>& packed, std::span<const int32_t> values) {
  packed.resize((packed.size() + kAlignedInts - 1) / kAlignedInts * kAlignedInts);
  const size_t at = packed.size();
  packed.insert(packed.end(), values.begin(), values.end());
  return at;
}

std::span<const int32_t> ints_of(const std::vector<AttentionTile>& tiles) {
  static_assert(sizeof(AttentionTile) == kAlignedInts * sizeof(int32_t));
  return {reinterpret_cast<const int32_t*>(tiles.data()), tiles.size() * kAlignedInts};
}

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

}  // namespace

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

void StepArrays::upload(const Batch& batch, int decode_tile_rows, bool invariant,
                        cudaStream_t stream) {
  make_tiles(batch, decode_tile_rows, invariant);
  packed_.clear();
  const size_t ids = append(packed_, batch.input_ids);
  const size_t places = append(packed_, batch.positions);
  const size_t slots = append(packed_, batch.slot_mapping);
  const size_t starts = append(packed_, batch.query_start_loc);
  const size_t lengths = append(packed_, batch.seq_lens);
  const size_t tables = append(packed_, batch.block_tables);
  const size_t wanted = append(packed_, batch.logits_indices);
  const size_t decode_at = append(packed_, ints_of(decode_tiles_));
  const size_t prefill_at = append(packed_, ints_of(prefill_tiles_));

  const int64_t bytes = static_cast<int64_t>(packed_.size() * sizeof(int32_t));
  LLM_CUDA(cudaEventSynchronize(copied_.get()));  // the step before may still read host_
  std::byte* host = host_.reserve(bytes);
  std::memcpy(host, packed_.data(), static_cast<size_t>(bytes));
  std::byte* device = device_.reserve(bytes, stream);
  LLM_CUDA(
      cudaMemcpyAsync(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream));
  LLM_CUDA(cudaEventRecord(copied_.get(), stream));

  const int32_t* base = reinterpret_cast<const int32_t*>(device);
  input_ids = base + ids;
  positions = base + places;
  slot_mapping = base + slots;
  query_start_loc = base + starts;
  seq_lens = base + lengths;
  block_tables = base + tables;
  logits_indices = base + wanted;
  decode = {reinterpret_cast<const AttentionTile*>(base + decode_at),
            static_cast<int>(decode_tiles_.size()), most_splits(decode_tiles_, batch)};
  prefill = {reinterpret_cast<const AttentionTile*>(base + prefill_at),
             static_cast<int>(prefill_tiles_.size()),
             invariant ? most_splits(prefill_tiles_, batch) : 0};
}

}  // namespace llm
