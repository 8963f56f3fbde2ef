#include "text/word_cache.h"

#include <algorithm>
#include <utility>

namespace llm {

void WordCache::add(const WordKey& word, std::span<const int32_t> tokens) {
  if (tokens.size() > kMaxTokens) return;
  if (++num_added_ > sets_.size() && bits_ < kMaxBits) grow();
  Entry entry;
  entry.key = word.packed();
  entry.num_tokens = static_cast<uint32_t>(tokens.size());
  std::copy(tokens.begin(), tokens.end(), entry.tokens.begin());
  insert(entry, word.hash(bits_));
}

void WordCache::grow() {
  bits_ += 2;
  num_added_ = 0;
  sets_.assign(size_t{1} << bits_, Set());
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
