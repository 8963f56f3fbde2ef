// Which cache blocks are in use: none handed out twice, none taken back twice, none lost.
#include "engine/block_manager.h"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <stdexcept>
#include <vector>

namespace llm {
namespace {

TEST_CASE("blocks_for: 16 tokens a block, rounded up") {
  CHECK(BlockManager::blocks_for(0) == 0);
  CHECK(BlockManager::blocks_for(1) == 1);
  CHECK(BlockManager::blocks_for(16) == 1);
  CHECK(BlockManager::blocks_for(17) == 2);
}

TEST_CASE("grow takes only the blocks that are missing") {
  BlockManager blocks(4);
  std::vector<int32_t> table;
  blocks.grow(table, 10);
  CHECK(table.size() == 1);
  blocks.grow(table, 16);
  CHECK(table.size() == 1);
  blocks.grow(table, 33);
  CHECK(table.size() == 3);
  CHECK(std::set<int32_t>(table.begin(), table.end()).size() == 3);
  CHECK(blocks.num_free() == 1);
  blocks.grow(table, 5);  // fewer than it holds: nothing happens
  CHECK(table.size() == 3);
}

TEST_CASE("running out of blocks and releasing twice are bugs") {
  BlockManager blocks(2);
  std::vector<int32_t> table;
  CHECK_THROWS_AS(blocks.grow(table, 33), std::logic_error);
  blocks.grow(table, 32);
  std::vector<int32_t> copy = table;
  blocks.release(table);
  CHECK(table.empty());
  CHECK_THROWS_AS(blocks.release(copy), std::logic_error);
  std::vector<int32_t> foreign = {7};
  CHECK_THROWS_AS(blocks.release(foreign), std::logic_error);
}

TEST_CASE("random growth and release: every block is free or in one table") {
  std::mt19937 random(1);
  const int num_blocks = 40;
  BlockManager blocks(num_blocks);
  std::vector<std::vector<int32_t>> tables(6);
  for (int step = 0; step < 2000; ++step) {
    std::vector<int32_t>& table = tables[random() % tables.size()];
    const int64_t wanted = static_cast<int64_t>(random() % 200);
    const int64_t more = BlockManager::blocks_for(wanted) - static_cast<int64_t>(table.size());
    if (random() % 3 == 0) {
      blocks.release(table);
    } else if (more <= blocks.num_free()) {
      blocks.grow(table, wanted);
    }
    std::set<int32_t> used;
    size_t count = 0;
    for (const auto& t : tables) {
      used.insert(t.begin(), t.end());
      count += t.size();
    }
    REQUIRE(used.size() == count);
    REQUIRE(static_cast<int64_t>(count) + blocks.num_free() == num_blocks);
    REQUIRE((used.empty() || (*used.begin() >= 0 && *used.rbegin() < num_blocks)));
  }
}

}  // namespace
}  // namespace llm
