// What changes from step to step, in device memory: the batch's arrays, and the tiles of rows that
// attention works on. One copy a step, from pinned memory.
#pragma once

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

class StepArrays {
 public:
  StepArrays() : copied_(make_event()) {}

  /// Queues the copy. Decode tiles have up to decode_tile_rows rows; with `invariant` the prefill
  /// rows get such tiles too.
  void upload(const Batch& batch, int decode_tile_rows, bool invariant, cudaStream_t stream);

  const int32_t* input_ids = nullptr;        // [T]
  const int32_t* positions = nullptr;        // [T]
  const int32_t* slot_mapping = nullptr;     // [T]
  const int32_t* query_start_loc = nullptr;  // [B + 1]
  const int32_t* seq_lens = nullptr;         // [B]
  const int32_t* block_tables = nullptr;     // [B, max_blocks]
  const int32_t* logits_indices = nullptr;   // [R]
  TileList decode;                           // of the decode rows
  TileList prefill;                          // of the others

 private:
  void make_tiles(const Batch& batch, int decode_tile_rows, bool invariant);

  std::vector<int32_t> packed_;
  std::vector<AttentionTile> decode_tiles_;
  std::vector<AttentionTile> prefill_tiles_;
  PinnedWorkspace host_;
  Workspace device_;
  Event copied_;
};

}  // namespace llm
