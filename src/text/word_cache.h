// What merging gave for short pieces of text that aren't tokens, so that few are merged twice.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/huge_page_allocator.h"
#include "text/short_bytes.h"
#include "text/vocabulary.h"

namespace llm {

/// A word of up to 31 bytes, as a key.
struct WordKey {
  static constexpr size_t kMaxBytes = 31;

  ShortBytes head;
  ShortBytes tail;  // bytes from ShortBytes::kMaxLength on

  static WordKey of(std::string_view word, const ShortBytes& head) {
    const bool is_short = word.size() <= ShortBytes::kMaxLength;
    return {head, is_short ? ShortBytes() : ShortBytes::of(word.substr(ShortBytes::kMaxLength))};
  }
  size_t length() const { return head.length + tail.length; }
  bool is_short() const { return length() < ShortBytes::kMaxLength; }

  /// Unlike any other word's, and never all zeros: the length stands in the last byte.
  std::array<uint64_t, 4> packed() const {
    return {head.low, head.high, tail.low, tail.high ^ static_cast<uint64_t>(length()) << 56};
  }
  /// The same for short words.
  std::array<uint64_t, 2> short_packed() const {
    return {head.low, head.high ^ static_cast<uint64_t>(length()) << 56};
  }
};

/// For each hash the last words that had it, with up to `kTokens` tokens; their keys have that many
/// numbers.
template <size_t kNumbers, size_t kTokens>
class WordTable {
 public:
  using Key = std::array<uint64_t, kNumbers>;

  void prefetch(const Key& key) const { __builtin_prefetch(&sets_[set_of(key)]); }

  /// Nothing if they aren't known.
  std::optional<std::span<const int32_t>> find(const Key& key) const {
    for (const Entry& entry : sets_[set_of(key)].entries) {
      uint64_t difference = 0;
      for (size_t i = 0; i < kNumbers; ++i) difference |= entry.key[i] ^ key[i];
      if (difference != 0) continue;
      size_t count = kTokens;
      while (count > 0 && entry.tokens[count - 1] == kNoToken) --count;
      return std::span(entry.tokens.data(), count);
    }
    return std::nullopt;
  }

  void add(const Key& key, std::span<const int32_t> tokens) {
    if (++num_added_ > kWays * sets_.size() / 2 && bits_ < kMaxBits) grow();
    Entry entry;
    entry.key = key;
    entry.tokens.fill(kNoToken);
    std::copy(tokens.begin(), tokens.end(), entry.tokens.begin());
    insert(entry);
  }

 private:
  static constexpr int kFirstBits = 7;
  static constexpr int kMaxBits = 16;  // 8 MiB
  static constexpr size_t kSetBytes = 128;

  struct Entry {
    Key key{};
    std::array<int32_t, kTokens> tokens{};
  };
  static constexpr size_t kWays = kSetBytes / sizeof(Entry);
  /// Words of the same hash, the newest first.
  struct alignas(64) Set {
    std::array<Entry, kWays> entries;
  };

  size_t set_of(const Key& key) const {
    uint64_t hash = 0;
    for (const uint64_t number : key) {
      hash = (hash ^ number) * 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
      hash ^= hash >> 29;
    }
    return static_cast<size_t>(hash * 0xc2b2ae3d27d4eb4f >> (64 - bits_));
  }

  void insert(const Entry& entry) {
    auto& entries = sets_[set_of(entry.key)].entries;
    std::copy_backward(entries.begin(), entries.end() - 1, entries.end());
    entries[0] = entry;
  }

  void grow() {
    bits_ += 3;
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

/// For one thread at a time.
class WordCache {
 public:
  /// Says that find(word) comes soon.
  void prefetch(const WordKey& word) const {
    word.is_short() ? short_words_.prefetch(word.short_packed()) : others_.prefetch(word.packed());
  }

  /// The word's tokens; none if they aren't known. Valid until the next add().
  std::span<const int32_t> find(const WordKey& word) const {
    if (word.is_short()) {
      const auto tokens = short_words_.find(word.short_packed());
      if (!tokens || !tokens->empty()) return tokens.value_or(std::span<const int32_t>());
    }
    return others_.find(word.packed()).value_or(std::span<const int32_t>());
  }

  /// Does nothing if there are too many.
  void add(const WordKey& word, std::span<const int32_t> tokens) {
    if (tokens.size() > kOtherTokens) return;
    const bool fits = word.is_short() && tokens.size() <= kShortTokens;
    // (A short word without tokens here is to be found there.)
    if (word.is_short()) short_words_.add(word.short_packed(), fits ? tokens : tokens.first(0));
    if (!fits) others_.add(word.packed(), tokens);
  }

 private:
  static constexpr size_t kShortTokens = 4;
  static constexpr size_t kOtherTokens = 8;

  WordTable<2, kShortTokens> short_words_;
  WordTable<4, kOtherTokens> others_;
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
