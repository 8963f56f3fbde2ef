// Which blocks of the KV cache are in use, by how many sequences, and which hold a prefix that a
// later sequence can share.
//
// The prefix cache is a trie over full pages, kept in one hash map: a page's key is its own token
// ids and the number of the content before it, and every content gets a number of its own that is
// never used again. Keys are compared whole, so a hit is a true equality of all ids from position 0
// on, whatever hashes collide. Pages that no sequence uses keep their content until they are
// needed; the longest unused goes first, ends of sequences before their beginnings.
//
// Blocks are handed out and shared in pages of one or more neighbours. A larger page means fewer to
// look after, and more room that the last page of a sequence leaves empty.
#pragma once

#include <cstdint>
#include <iterator>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/kv_layout.h"

namespace llm {

/// Hands out blocks [0, num_blocks), page_size tokens at a time. One cache has one model, KV dtype
/// and rope, so token ids say all about a block's content. Not thread-safe.
class BlockManager {
 public:
  /// page_size is a multiple of kKvBlockSize; blocks that fill no page are never used.
  explicit BlockManager(int64_t num_blocks, int64_t page_size = kKvBlockSize);

  /// Blocks that a sequence of num_tokens tokens occupies, all pages whole.
  int64_t blocks_for(int64_t num_tokens) const;

  int64_t num_blocks() const { return std::ssize(pages_) * blocks_per_page(); }
  /// Blocks that no sequence uses, with or without content worth sharing.
  int64_t num_free() const { return std::ssize(free_) * blocks_per_page(); }

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
    std::vector<int32_t> ids;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  struct Page {
    int32_t num_uses = 0;
    ContentNumber content = kNoContent;
    const Key* key = nullptr;  // in prefixes_, if this is the page that reuse() finds
  };

  int64_t blocks_per_page() const { return page_size_ / kKvBlockSize; }
  Page& page(int32_t index) { return pages_[static_cast<size_t>(index)]; }
  /// The page that is the nth of a sequence.
  int32_t page_of(const std::vector<int32_t>& block_table, size_t n) const;
  size_t num_pages(const std::vector<int32_t>& block_table) const {
    return block_table.size() / static_cast<size_t>(blocks_per_page());
  }
  void append(std::vector<int32_t>& block_table, int32_t index) const;
  std::span<const int32_t> nth_page(std::span<const int32_t> ids, size_t n) const;
  void use(int32_t index);
  void forget(Page& page);

  int64_t page_size_;  // tokens
  std::vector<Page> pages_;
  std::set<std::pair<uint64_t, int32_t>> free_;  // (time of release, or 0 without content; index)
  std::vector<uint64_t> freed_at_;               // the first of each page's pair
  std::unordered_map<Key, int32_t, KeyHash> prefixes_;
  ContentNumber last_content_ = kNoContent;
  uint64_t clock_ = 0;
};

}  // namespace llm
