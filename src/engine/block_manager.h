// Which blocks of the KV cache are in use.
#pragma once

#include <cstdint>
#include <vector>

namespace llm {

/// Hands out blocks [0, num_blocks). Not thread-safe.
class BlockManager {
 public:
  explicit BlockManager(int64_t num_blocks);

  /// Blocks that hold num_tokens tokens.
  static int64_t blocks_for(int64_t num_tokens);

  int64_t num_blocks() const { return static_cast<int64_t>(in_use_.size()); }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }

  /// Appends blocks to the table until it holds num_tokens tokens. There must be enough free ones.
  void grow(std::vector<int32_t>& block_table, int64_t num_tokens);

  /// Takes all blocks of the table back and empties it.
  void release(std::vector<int32_t>& block_table);

 private:
  std::vector<int32_t> free_;  // the last is the next to go
  std::vector<bool> in_use_;
};

}  // namespace llm
