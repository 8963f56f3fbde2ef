// What encoding gave for longer words: a table by hash of places in a store of bytes and tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/huge_page_allocator.h"
#include "text/short_bytes.h"

namespace llm {

/// Forgets everything when it is full.
class LongWordTable {
 public:
  static constexpr size_t kMaxBytes = 255;  // of a word

  static uint32_t hash_of(std::string_view word);
  static uint32_t hash_of(const ShortBytes& word);

  /// Says that find() comes soon: first that, and when it has come, what it leads to.
  void prefetch(uint32_t hash) const { __builtin_prefetch(&sets_[set_of(hash)]); }
  void prefetch_found(uint32_t hash) const {
    for (const Slot& slot : sets_[set_of(hash)].slots) {
      if (slot.hash != hash || slot.record == 0) continue;
      __builtin_prefetch(&store_[slot.record]);
      __builtin_prefetch(&store_[slot.record] + kLine / sizeof(uint32_t));
    }
  }

  /// The word's tokens; none if they aren't known. Valid until the next add().
  std::span<const int32_t> find(std::string_view word, uint32_t hash) const;

  /// A word of at most kMaxBytes that find() doesn't know, with at least one token.
  void add(std::string_view word, uint32_t hash, std::span<const int32_t> tokens);

 private:
  static constexpr size_t kLine = 64;
  static constexpr int kFirstBits = 6;
  static constexpr int kMaxBits = 16;                     // 4 MiB
  static constexpr size_t kFirstStore = size_t{1} << 12;  // numbers
  static constexpr size_t kMaxStore = size_t{1} << 22;    // 16 MiB
  static constexpr size_t kWays = 8;

  struct Slot {
    uint32_t hash = 0;
    uint32_t record = 0;  // place in store_; 0: free
  };
  struct alignas(kLine) Set {
    std::array<Slot, kWays> slots;
  };

  size_t set_of(uint32_t hash) const { return hash >> (32 - bits_); }
  void insert(Slot slot);
  void grow();
  void clear();

  int bits_ = kFirstBits;
  HugePageVector<Set> sets_ = HugePageVector<Set>(size_t{1} << kFirstBits);
  size_t num_added_ = 0;  // to the sets
  /// From 1 on: a word's length | number of tokens << 16, the tokens, the bytes.
  HugePageVector<uint32_t> store_ = HugePageVector<uint32_t>(1);
};

}  // namespace llm
