// Which blocks of the KV cache are in use, by how many sequences, and which hold a prefix that a
// later sequence can share.
//
// The prefix cache is a trie over full blocks, kept in one hash map: a block's key is its own token
// ids and the number of the content before it, and every content gets a number of its own that is
// never used again. Keys are compared whole, so a hit is a true equality of all ids from position 0
// on, whatever hashes collide. Blocks that no sequence uses keep their content until they are
// needed; the longest unused goes first, ends of sequences before their beginnings.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/kv_layout.h"

namespace llm {

/// Hands out blocks [0, num_blocks). One cache has one model, KV dtype and rope, so token ids say
/// all about a block's content. Not thread-safe.
class BlockManager {
 public:
  explicit BlockManager(int64_t num_blocks);

  /// Blocks that hold num_tokens tokens.
  static int64_t blocks_for(int64_t num_tokens);

  int64_t num_blocks() const { return static_cast<int64_t>(blocks_.size()); }
  /// Blocks that no sequence uses, with or without content worth sharing.
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }

  /// Appends blocks to the table until it holds num_tokens tokens. There must be enough free ones.
  void grow(std::vector<int32_t>& block_table, int64_t num_tokens);

  /// Fills an empty table with the blocks that already hold a prefix of ids, and returns how many
  /// tokens that are. The last id is never among them: it has to be computed for its logits.
  int64_t reuse(std::vector<int32_t>& block_table, std::span<const int32_t> ids);

  /// Makes the table's full blocks, which hold the keys and values of `cached_ids` from position 0
  /// on, available to reuse().
  void remember(const std::vector<int32_t>& block_table, std::span<const int32_t> cached_ids);

  /// Gives up one use of all blocks of the table and empties it.
  void release(std::vector<int32_t>& block_table);

 private:
  using ContentNumber = uint64_t;
  static constexpr ContentNumber kNoContent = 0;

  struct Key {
    ContentNumber parent = kNoContent;  // of the block before; kNoContent for the first
    std::array<int32_t, kKvBlockSize> ids = {};
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  struct Block {
    int32_t num_uses = 0;
    ContentNumber content = kNoContent;
    const Key* key = nullptr;  // in prefixes_, if this is the block that reuse() finds
  };

  Block& block(int32_t index) { return blocks_[static_cast<size_t>(index)]; }
  const Block& block(int32_t index) const { return blocks_[static_cast<size_t>(index)]; }
  void use(int32_t index);
  void forget(Block& block);

  std::vector<Block> blocks_;
  std::set<std::pair<uint64_t, int32_t>> free_;  // (time of release, or 0 without content; index)
  std::vector<uint64_t> freed_at_;               // the first of each block's pair
  std::unordered_map<Key, int32_t, KeyHash> prefixes_;
  ContentNumber last_content_ = kNoContent;
  uint64_t clock_ = 0;
};

}  // namespace llm
