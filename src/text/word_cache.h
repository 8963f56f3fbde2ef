// What merging gave for short pieces of text that aren't tokens, so that few are merged twice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "text/short_bytes.h"

namespace llm {

/// For each hash the last piece that had it. For one thread at a time.
class WordCache {
 public:
  /// Only pieces of up to so many bytes ...
  static constexpr size_t kMaxBytes = 15;
  /// ... and tokens are kept.
  static constexpr size_t kMaxTokens = 11;

  /// The piece's tokens; none if they aren't known. Valid until the next add().
  std::span<const int32_t> find(const ShortBytes& piece) const {
    const Entry& entry = entries_[piece.hash(bits_)];
    if (entry.low != piece.low || entry.high != tagged(piece)) return {};
    return {entry.tokens.data(), entry.num_tokens};
  }

  /// Says that find(piece) comes soon.
  void prefetch(const ShortBytes& piece) const {
    __builtin_prefetch(&entries_[piece.hash(bits_)]);
  }

  /// Does nothing if there are more than kMaxTokens.
  void add(const ShortBytes& piece, std::span<const int32_t> tokens);

 private:
  static constexpr int kFirstBits = 10;
  static constexpr int kMaxBits = 16;

  /// One line of memory.
  struct Entry {
    uint64_t low = 0;
    uint64_t high = 0;  // tagged(); 0 if the entry is free
    uint32_t num_tokens = 0;
    std::array<int32_t, kMaxTokens> tokens{};
  };

  /// A piece's upper half with its length in the last byte.
  static uint64_t tagged(const ShortBytes& piece) {
    return piece.high ^ static_cast<uint64_t>(piece.length) << 56;
  }
  void grow();

  int bits_ = kFirstBits;
  std::vector<Entry> entries_ = std::vector<Entry>(size_t{1} << kFirstBits);
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
