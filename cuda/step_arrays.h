// What changes from step to step, in device memory: the batch's arrays, and the tiles of rows that
// attention works on. One copy a step, from pinned memory.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backend/batch.h"
#include "cuda/kernels.h"
#include "cuda/memory.h"

namespace llm {

/// Tiles of one kind, on the device.
struct TileList {
  const AttentionTile* tiles = nullptr;
  int num_tiles = 0;
  int max_splits = 0;  // of any decode tile
};

/// How large a step's arrays are: as the batch is, or the next larger of a few sizes, so that steps
/// of one shape find everything at the same places. What is padded does nothing.
struct StepShape {
  int64_t rows = 0;
  int64_t seqs = 0;
  int64_t logits = 0;
  int64_t max_blocks = 0;  // columns of block_tables
  bool padded = false;

  static StepShape exact(const Batch& batch);
  /// For a batch in which all rows decode and have logits.
  static StepShape of_decode(const Batch& batch);
};

/// Sizes that numbers of rows are padded to: powers of two.
int64_t padded_step_rows(int64_t rows);

class StepArrays {
 public:
  StepArrays();

  /// Queues the copy. Decode tiles have up to decode_tile_rows rows; with `invariant` the prefill
  /// rows get such tiles too.
  void upload(const Batch& batch, const StepShape& shape, int decode_tile_rows, bool invariant,
              cudaStream_t stream);

  const int32_t* input_ids = nullptr;        // [rows]
  int32_t* known_ids = nullptr;              // [rows] for the embedding to fill
  const int32_t* positions = nullptr;        // [rows]
  const int32_t* slot_mapping = nullptr;     // [rows]
  const int32_t* query_start_loc = nullptr;  // [seqs + 1]
  const int32_t* seq_lens = nullptr;         // [seqs]
  const int32_t* block_tables = nullptr;     // [seqs, max_blocks]
  const int32_t* logits_indices = nullptr;   // [logits]
  TileList decode;                           // of the decode rows
  TileList prefill;                          // of the others
  StepShape shape;

  /// Changes when the arrays have moved.
  const std::byte* place() const { return place_; }

 private:
  /// Pinned memory that one of the latest steps was copied from.
  struct Source {
    PinnedWorkspace memory;
    Event copied;
  };

  void make_tiles(const Batch& batch, int decode_tile_rows, bool invariant);

  std::vector<int32_t> packed_;
  std::vector<AttentionTile> decode_tiles_;
  std::vector<AttentionTile> prefill_tiles_;
  std::array<Source, 2> sources_;  // in turn, as the host may be a step ahead
  size_t next_source_ = 0;
  Workspace device_;
  std::byte* place_ = nullptr;
};

}  // namespace llm
