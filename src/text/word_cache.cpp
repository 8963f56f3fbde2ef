#include "text/word_cache.h"

#include <algorithm>
#include <utility>

namespace llm {

void WordCache::add(const ShortBytes& piece, std::span<const int32_t> tokens) {
  if (tokens.size() > kMaxTokens) return;
  if (++num_added_ > entries_.size() / 2 && bits_ < kMaxBits) grow();
  Entry& entry = entries_[piece.hash(bits_)];
  entry.low = piece.low;
  entry.high = tagged(piece);
  entry.num_tokens = static_cast<uint32_t>(tokens.size());
  std::copy(tokens.begin(), tokens.end(), entry.tokens.begin());
}

void WordCache::grow() {
  bits_ += 2;
  num_added_ = 0;
  const auto old = std::exchange(entries_, std::vector<Entry>(size_t{1} << bits_));
  for (const Entry& entry : old) {
    const uint64_t length = entry.high >> 56;
    if (length == 0) continue;
    const ShortBytes piece{entry.low, entry.high ^ length << 56, static_cast<uint32_t>(length)};
    entries_[piece.hash(bits_)] = entry;
  }
}

std::unique_ptr<WordCache> WordCachePool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto cache = std::move(idle_.back());
      idle_.pop_back();
      return cache;
    }
  }
  return std::make_unique<WordCache>();
}

void WordCachePool::give_back(std::unique_ptr<WordCache> cache) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(cache));
}

}  // namespace llm
