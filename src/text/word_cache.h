// What encoding gave for words, that is for short pieces of text, so that few are merged twice.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/huge_page_allocator.h"
#include "text/long_word_table.h"
#include "text/short_bytes.h"
#include "text/vocabulary.h"

namespace llm {

/// For each hash the last words that had it, of up to kMaxBytes and with up to kMaxTokens.
class ShortWordTable {
 public:
  static constexpr size_t kMaxBytes = 15;
  static constexpr size_t kMaxTokens = 4;

  /// Unlike any other word's, and never all zeros: the length stands in the last byte.
  struct Key {
    uint64_t low;
    uint64_t high;
    bool operator==(const Key&) const = default;
  };
  static Key key_of(const ShortBytes& word) {
    return {word.low, word.high | static_cast<uint64_t>(word.length) << 56};
  }
  static ShortBytes bytes_of(const Key& key) {
    constexpr uint64_t kBytes = ~uint64_t{0} >> 8;
    return {key.low, key.high & kBytes, static_cast<uint32_t>(key.high >> 56)};
  }
  /// No word's.
  static constexpr Key kNoKey = {0, ~uint64_t{0}};

  /// A word's tokens, at least one, then kNoToken.
  struct Tokens {
    std::array<int32_t, kMaxTokens> ids;

    size_t count() const {
      return static_cast<size_t>(4 + (ids[1] >> 31) + (ids[2] >> 31) + (ids[3] >> 31));
    }
  };

  /// Where the word belongs; until the next add() find() takes it.
  uint32_t place_of(const Key& key) const {
    constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd
    const uint64_t mixed = (key.low * kGolden) ^ (std::rotl(key.high, 32) * 0xc2b2ae3d27d4eb4f);
    return static_cast<uint32_t>((mixed ^ mixed >> 29) * kGolden >> (64 - bits_));
  }
  void prefetch(uint32_t place) const { __builtin_prefetch(&sets_[place]); }

  /// False if the word isn't known: then the tokens are any.
  bool find(const Key& key, uint32_t place, Tokens& tokens) const {
    const auto& entries = sets_[place].entries;
    // (No branches: which of the two it is can't be guessed.)
    const Entry& entry = entries[same(entries[1].key, key)];
    tokens = entry.tokens;
    return same(entry.key, key);
  }

  /// At least one token.
  void add(const Key& key, std::span<const int32_t> tokens) {
    Tokens known;
    if (find(key, place_of(key), known)) return;
    if (++num_added_ > sets_.size() && bits_ < kMaxBits) grow();
    Entry entry = {key, {}};
    entry.tokens.ids.fill(kNoToken);
    std::copy(tokens.begin(), tokens.end(), entry.tokens.ids.begin());
    insert(entry);
  }

 private:
  static constexpr int kFirstBits = 7;
  static constexpr int kMaxBits = 17;  // 8 MiB
  static constexpr size_t kWays = 2;

  struct Entry {
    Key key;
    Tokens tokens;
  };
  /// Words of the same hash, the newest first.
  struct alignas(64) Set {
    std::array<Entry, kWays> entries{};
  };

  static size_t same(const Key& a, const Key& b) {
    return ((a.low ^ b.low) | (a.high ^ b.high)) == 0;
  }

  void insert(const Entry& entry) {
    auto& [first, second] = sets_[place_of(entry.key)].entries;
    second = first;
    first = entry;
  }

  void grow() {
    bits_ += 2;
    num_added_ = 0;
    const auto old = std::exchange(sets_, HugePageVector<Set>(size_t{1} << bits_));
    for (const Set& set : old) {
      for (const Entry& entry : set.entries) {
        if (entry.key != Key{}) insert(entry);
      }
    }
  }

  int bits_ = kFirstBits;
  HugePageVector<Set> sets_ = HugePageVector<Set>(size_t{1} << kFirstBits);
  size_t num_added_ = 0;  // since it has this size
};

/// For one thread at a time. A small table for what is frequent, and a large one for what else
/// isn't a token as a whole.
struct WordCache {
  ShortWordTable short_words;
  LongWordTable others;
};

/// As many caches as are in use at the same time. Any thread may borrow one.
class WordCachePool {
 public:
  class Lease {
   public:
    explicit Lease(WordCachePool& pool) : pool_(pool), cache_(pool.take()) {}
    ~Lease() { pool_.give_back(std::move(cache_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    WordCache& operator*() const { return *cache_; }
    WordCache* operator->() const { return cache_.get(); }

   private:
    WordCachePool& pool_;
    std::unique_ptr<WordCache> cache_;
  };

 private:
  std::unique_ptr<WordCache> take();
  void give_back(std::unique_ptr<WordCache> cache);

  std::mutex mutex_;
  std::vector<std::unique_ptr<WordCache>> idle_;
};

}  // namespace llm
