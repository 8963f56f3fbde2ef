#include "engine/block_manager.h"

#include <algorithm>

#include "base/error.h"

namespace llm {

BlockManager::BlockManager(int64_t num_blocks)
    : blocks_(static_cast<size_t>(num_blocks)), freed_at_(static_cast<size_t>(num_blocks), 0) {
  for (int32_t i = 0; i < num_blocks; ++i) free_.emplace(0, i);
}

int64_t BlockManager::blocks_for(int64_t num_tokens) {
  return (num_tokens + kKvBlockSize - 1) / kKvBlockSize;
}

void BlockManager::grow(std::vector<int32_t>& block_table, int64_t num_tokens) {
  const int64_t wanted = blocks_for(num_tokens) - static_cast<int64_t>(block_table.size());
  LLM_CHECK(wanted <= num_free(), "{} blocks wanted, {} free", wanted, num_free());
  for (int64_t i = 0; i < wanted; ++i) {
    const int32_t index = free_.begin()->second;
    use(index);
    forget(block(index));
    block_table.push_back(index);
  }
}

int64_t BlockManager::reuse(std::vector<int32_t>& block_table, std::span<const int32_t> ids) {
  LLM_CHECK(block_table.empty() && !ids.empty());
  const size_t most = (ids.size() - 1) / kKvBlockSize;
  Key key;
  while (block_table.size() < most) {
    const auto next = ids.subspan(block_table.size() * kKvBlockSize, kKvBlockSize);
    std::copy(next.begin(), next.end(), key.ids.begin());
    const auto found = prefixes_.find(key);
    if (found == prefixes_.end()) break;
    use(found->second);
    block_table.push_back(found->second);
    key.parent = block(found->second).content;
  }
  return static_cast<int64_t>(block_table.size()) * kKvBlockSize;
}

void BlockManager::remember(const std::vector<int32_t>& block_table,
                            std::span<const int32_t> cached_ids) {
  const size_t num_full = cached_ids.size() / kKvBlockSize;
  LLM_CHECK(num_full <= block_table.size());
  size_t first = num_full;
  while (first > 0 && block(block_table[first - 1]).content == kNoContent) --first;
  for (size_t i = first; i < num_full; ++i) {
    Key key;
    if (i > 0) key.parent = block(block_table[i - 1]).content;
    const auto ids = cached_ids.subspan(i * kKvBlockSize, kKvBlockSize);
    std::copy(ids.begin(), ids.end(), key.ids.begin());
    const auto [entry, is_new] = prefixes_.try_emplace(key, block_table[i]);
    Block& own = block(block_table[i]);
    if (is_new) {
      own.content = ++last_content_;
      own.key = &entry->first;
    } else {  // two sequences computed the same: what follows belongs to one branch of the trie
      own.content = block(entry->second).content;
    }
  }
}

void BlockManager::release(std::vector<int32_t>& block_table) {
  // Backwards, so that the end of a sequence is given to others before its beginning.
  for (auto index = block_table.rbegin(); index != block_table.rend(); ++index) {
    LLM_CHECK(*index >= 0 && *index < num_blocks() && block(*index).num_uses > 0,
              "block {} is not in use", *index);
    Block& released = block(*index);
    if (--released.num_uses > 0) continue;
    if (released.key == nullptr) forget(released);
    const uint64_t time = released.key == nullptr ? 0 : ++clock_;
    freed_at_[static_cast<size_t>(*index)] = time;
    free_.emplace(time, *index);
  }
  block_table.clear();
}

void BlockManager::use(int32_t index) {
  if (block(index).num_uses++ == 0) free_.erase({freed_at_[static_cast<size_t>(index)], index});
}

void BlockManager::forget(Block& block) {
  if (block.key != nullptr) prefixes_.erase(prefixes_.find(*block.key));
  block.key = nullptr;
  block.content = kNoContent;
}

size_t BlockManager::KeyHash::operator()(const Key& key) const {
  // FNV-1a over 32-bit words: <http://www.isthe.com/chongo/tech/comp/fnv/>.
  constexpr uint64_t kOffsetBasis = 0xcbf29ce484222325, kPrime = 0x100000001b3;
  uint64_t hash = (kOffsetBasis ^ key.parent) * kPrime;
  for (const int32_t id : key.ids) hash = (hash ^ static_cast<uint32_t>(id)) * kPrime;
  return hash;
}

}  // namespace llm
