#include "engine/block_manager.h"

#include <numeric>

#include "backend/batch.h"
#include "base/error.h"

namespace llm {

BlockManager::BlockManager(int64_t num_blocks)
    : free_(static_cast<size_t>(num_blocks)), in_use_(static_cast<size_t>(num_blocks), false) {
  std::iota(free_.rbegin(), free_.rend(), 0);  // block 0 goes first
}

int64_t BlockManager::blocks_for(int64_t num_tokens) {
  return (num_tokens + kKvBlockSize - 1) / kKvBlockSize;
}

void BlockManager::grow(std::vector<int32_t>& block_table, int64_t num_tokens) {
  const int64_t wanted = blocks_for(num_tokens) - static_cast<int64_t>(block_table.size());
  LLM_CHECK(wanted <= num_free(), "{} blocks wanted, {} free", wanted, num_free());
  for (int64_t i = 0; i < wanted; ++i) {
    const int32_t block = free_.back();
    free_.pop_back();
    in_use_[static_cast<size_t>(block)] = true;
    block_table.push_back(block);
  }
}

void BlockManager::release(std::vector<int32_t>& block_table) {
  // Backwards, so that a sequence of the same length gets the same blocks in the same order.
  for (auto block = block_table.rbegin(); block != block_table.rend(); ++block) {
    LLM_CHECK(*block >= 0 && *block < num_blocks() && in_use_[static_cast<size_t>(*block)],
              "block {} is not in use", *block);
    in_use_[static_cast<size_t>(*block)] = false;
    free_.push_back(*block);
  }
  block_table.clear();
}

}  // namespace llm
