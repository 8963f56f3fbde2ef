// What merging gave for short pieces of text that aren't tokens, so that few are merged twice.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
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
  /// Of 32 bits.
  size_t hash() const { return head.hash(32) ^ (tail.length == 0 ? 0 : tail.hash(32)); }
};

/// For each hash the last words that had it, with up to `kTokens` tokens; their keys have that many
/// numbers.
template <size_t kNumbers, size_t kTokens>
class WordTable {
 public:
  using Key = std::array<uint64_t, kNumbers>;

  void prefetch(size_t hash) const { __builtin_prefetch(&sets_[hash >> (kHashBits - bits_)]); }

  /// None if they aren't known.
  std::span<const int32_t> find(size_t hash, const Key& key) const {
    for (const Entry& entry : sets_[hash >> (kHashBits - bits_)].entries) {
      uint64_t difference = 0;
      for (size_t i = 0; i < kNumbers; ++i) difference |= entry.key[i] ^ key[i];
      if (difference != 0) continue;
      size_t count = kTokens;
      while (count > 0 && entry.tokens[count - 1] == kNoToken) --count;
      return {entry.tokens.data(), count};
    }
    return {};
  }

  void add(size_t hash, const Key& key, std::span<const int32_t> tokens) {
    if (++num_added_ > kWays * sets_.size() / 2 && bits_ < kMaxBits) grow();
    auto& entries = sets_[hash >> (kHashBits - bits_)].entries;
    std::copy_backward(entries.begin(), entries.end() - 1, entries.end());
    entries[0].key = key;
    entries[0].tokens.fill(kNoToken);
    std::copy(tokens.begin(), tokens.end(), entries[0].tokens.begin());
  }

  static constexpr int kHashBits = 32;

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

  /// Forgets all words.
  void grow() {
    bits_ += 3;
    num_added_ = 0;
    sets_.assign(size_t{1} << bits_, Set());
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
    word.is_short() ? short_words_.prefetch(word.hash()) : others_.prefetch(word.hash());
  }

  /// The word's tokens; none if they aren't known. Valid until the next add().
  std::span<const int32_t> find(const WordKey& word) const {
    if (word.is_short()) {
      const auto tokens = short_words_.find(word.hash(), word.short_packed());
      if (!tokens.empty()) return tokens;
    }
    return others_.find(word.hash(), word.packed());
  }

  /// Does nothing if there are too many.
  void add(const WordKey& word, std::span<const int32_t> tokens) {
    if (word.is_short() && tokens.size() <= kShortTokens) {
      short_words_.add(word.hash(), word.short_packed(), tokens);
    } else if (tokens.size() <= kOtherTokens) {
      others_.add(word.hash(), word.packed(), tokens);
    }
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
