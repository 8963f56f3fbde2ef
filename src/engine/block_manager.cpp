#include "engine/block_manager.h"

#include <algorithm>

#include "base/error.h"

namespace llm {

BlockManager::BlockManager(int64_t num_blocks, int64_t page_size)
    : page_size_(page_size),
      pages_(static_cast<size_t>(num_blocks * kKvBlockSize / page_size)),
      freed_at_(pages_.size(), 0) {
  LLM_CHECK(page_size > 0 && page_size % kKvBlockSize == 0, "pages of {} tokens", page_size);
  for (int32_t i = 0; i < std::ssize(pages_); ++i) free_.emplace(0, i);
}

int64_t BlockManager::blocks_for(int64_t num_tokens) const {
  return (num_tokens + page_size_ - 1) / page_size_ * blocks_per_page();
}

void BlockManager::grow(std::vector<int32_t>& block_table, int64_t num_tokens) {
  const int64_t wanted = blocks_for(num_tokens) - std::ssize(block_table);
  LLM_CHECK(wanted <= num_free(), "{} blocks wanted, {} free", wanted, num_free());
  for (int64_t i = 0; i < wanted; i += blocks_per_page()) {
    const int32_t index = free_.begin()->second;
    use(index);
    forget(page(index));
    append(block_table, index);
  }
}

int64_t BlockManager::reuse(std::vector<int32_t>& block_table, std::span<const int32_t> ids) {
  LLM_CHECK(block_table.empty() && !ids.empty());
  const size_t most = (ids.size() - 1) / static_cast<size_t>(page_size_);
  Key key;
  size_t num_found = 0;
  for (; num_found < most; ++num_found) {
    const auto next = nth_page(ids, num_found);
    key.ids.assign(next.begin(), next.end());
    const auto found = prefixes_.find(key);
    if (found == prefixes_.end()) break;
    use(found->second);
    append(block_table, found->second);
    key.parent = page(found->second).content;
  }
  return static_cast<int64_t>(num_found) * page_size_;
}

void BlockManager::remember(const std::vector<int32_t>& block_table,
                            std::span<const int32_t> cached_ids) {
  const size_t num_full = cached_ids.size() / static_cast<size_t>(page_size_);
  LLM_CHECK(num_full <= num_pages(block_table));
  size_t first = num_full;
  while (first > 0 && page(page_of(block_table, first - 1)).content == kNoContent) --first;
  for (size_t i = first; i < num_full; ++i) {
    Key key;
    if (i > 0) key.parent = page(page_of(block_table, i - 1)).content;
    const auto ids = nth_page(cached_ids, i);
    key.ids.assign(ids.begin(), ids.end());
    const auto [entry, is_new] = prefixes_.try_emplace(key, page_of(block_table, i));
    Page& own = page(page_of(block_table, i));
    if (is_new) {
      own.content = ++last_content_;
      own.key = &entry->first;
    } else {  // two sequences computed the same: what follows belongs to one branch of the trie
      own.content = page(entry->second).content;
    }
  }
}

void BlockManager::release(std::vector<int32_t>& block_table) {
  // Backwards, so that the end of a sequence is given to others before its beginning.
  for (size_t n = num_pages(block_table); n > 0; --n) {
    const int32_t index = page_of(block_table, n - 1);
    LLM_CHECK(index >= 0 && index < std::ssize(pages_) && page(index).num_uses > 0,
              "page {} is not in use", index);
    Page& released = page(index);
    if (--released.num_uses > 0) continue;
    if (released.key == nullptr) forget(released);
    const uint64_t time = released.key == nullptr ? 0 : ++clock_;
    freed_at_[static_cast<size_t>(index)] = time;
    free_.emplace(time, index);
  }
  block_table.clear();
}

int32_t BlockManager::page_of(const std::vector<int32_t>& block_table, size_t n) const {
  const int64_t first_block = block_table[n * static_cast<size_t>(blocks_per_page())];
  return static_cast<int32_t>(first_block / blocks_per_page());
}

void BlockManager::append(std::vector<int32_t>& block_table, int32_t index) const {
  for (int64_t i = 0; i < blocks_per_page(); ++i) {
    block_table.push_back(static_cast<int32_t>(index * blocks_per_page() + i));
  }
}

std::span<const int32_t> BlockManager::nth_page(std::span<const int32_t> ids, size_t n) const {
  const auto size = static_cast<size_t>(page_size_);
  return ids.subspan(n * size, size);
}

void BlockManager::use(int32_t index) {
  if (page(index).num_uses++ == 0) free_.erase({freed_at_[static_cast<size_t>(index)], index});
}

void BlockManager::forget(Page& page) {
  if (page.key != nullptr) prefixes_.erase(prefixes_.find(*page.key));
  page.key = nullptr;
  page.content = kNoContent;
}

size_t BlockManager::KeyHash::operator()(const Key& key) const {
  // FNV-1a over 32-bit words: <http://www.isthe.com/chongo/tech/comp/fnv/>.
  constexpr uint64_t kOffsetBasis = 0xcbf29ce484222325, kPrime = 0x100000001b3;
  uint64_t hash = (kOffsetBasis ^ key.parent) * kPrime;
  for (const int32_t id : key.ids) hash = (hash ^ static_cast<uint32_t>(id)) * kPrime;
  return hash;
}

}  // namespace llm
