// What merging gave for short pieces of text that aren't tokens, so that few are merged twice.
#pragma once

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
  /// Unlike any other key, and never all zeros.
  std::array<uint64_t, 4> packed() const {
    const uint64_t length = head.length + tail.length;
    return {head.low, head.high, tail.low, tail.high ^ length << 56};
  }
  size_t hash(int bits) const { return head.hash(bits) ^ tail.hash(bits); }
};

/// For each hash the last two words that had it. For one thread at a time.
class WordCache {
 public:
  /// Words with more tokens aren't kept.
  static constexpr size_t kMaxTokens = 7;

  /// Says that find(word) comes soon.
  void prefetch(const WordKey& word) const { __builtin_prefetch(&sets_[word.hash(bits_)]); }

  /// The word's tokens; none if they aren't known. Valid until the next add().
  std::span<const int32_t> find(const WordKey& word) const {
    const auto key = word.packed();
    for (const Entry& entry : sets_[word.hash(bits_)].entries) {
      if (same(entry.key, key)) return {entry.tokens.data(), entry.num_tokens};
    }
    return {};
  }

  /// Does nothing if there are more than kMaxTokens.
  void add(const WordKey& word, std::span<const int32_t> tokens);

 private:
  static constexpr int kFirstBits = 8;
  static constexpr int kMaxBits = 16;  // 8 MiB

  struct Entry {
    std::array<uint64_t, 4> key{};  // packed()
    uint32_t num_tokens = 0;
    std::array<int32_t, kMaxTokens> tokens{};
  };
  /// Entries of the same hash, the newer one first, each in one line of memory.
  struct alignas(64) Set {
    std::array<Entry, 2> entries;
  };

  static bool same(const std::array<uint64_t, 4>& a, const std::array<uint64_t, 4>& b) {
    return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3])) == 0;
  }
  void insert(const Entry& entry, size_t set) {
    sets_[set].entries[1] = sets_[set].entries[0];
    sets_[set].entries[0] = entry;
  }
  void grow();

  int bits_ = kFirstBits;
  HugePageVector<Set> sets_ = HugePageVector<Set>(size_t{1} << kFirstBits);
  size_t num_added_ = 0;  // since it has this size
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
