// Which cache blocks are in use: none handed out twice, none taken back twice, none lost.
#include "engine/block_manager.h"

#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

namespace llm {
namespace {

TEST_CASE("blocks_for: 16 tokens a block, whole pages") {
  const BlockManager blocks(8);
  CHECK(blocks.blocks_for(0) == 0);
  CHECK(blocks.blocks_for(1) == 1);
  CHECK(blocks.blocks_for(16) == 1);
  CHECK(blocks.blocks_for(17) == 2);
  const BlockManager pages(8, 48);
  CHECK(pages.blocks_for(1) == 3);
  CHECK(pages.blocks_for(48) == 3);
  CHECK(pages.blocks_for(49) == 6);
  CHECK(pages.num_blocks() == 6);  // the last two fill no page
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

std::vector<int32_t> numbers(int32_t first, int n) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

/// A sequence that came, was computed and went.
void run_through(BlockManager& blocks, const std::vector<int32_t>& ids) {
  std::vector<int32_t> table;
  blocks.reuse(table, ids);
  blocks.grow(table, static_cast<int64_t>(ids.size()));
  blocks.remember(table, ids);
  blocks.release(table);
}

TEST_CASE("reuse finds the full blocks of an equal prefix, and never the last id") {
  BlockManager blocks(8);
  const std::vector<int32_t> ids = numbers(0, 40);
  run_through(blocks, ids);
  CHECK(blocks.num_free() == 8);

  std::vector<int32_t> table;
  CHECK(blocks.reuse(table, ids) == 32);
  CHECK(blocks.num_free() == 6);
  std::vector<int32_t> shared;
  CHECK(blocks.reuse(shared, numbers(0, 33)) == 32);
  CHECK(shared == table);
  CHECK(blocks.num_free() == 6);  // used twice, counted once
  blocks.release(table);
  CHECK(blocks.num_free() == 6);
  blocks.release(shared);
  CHECK(blocks.num_free() == 8);

  CHECK(blocks.reuse(table, numbers(0, 32)) == 16);
  blocks.release(table);
  CHECK(blocks.reuse(table, numbers(0, 16)) == 0);
  std::vector<int32_t> other = ids;
  other[17] = 99;
  CHECK(blocks.reuse(table, other) == 16);
  blocks.release(table);
  other[0] = 99;
  CHECK(blocks.reuse(table, other) == 0);
}

TEST_CASE("a block is found only behind the blocks it was computed after") {
  BlockManager blocks(8);
  std::vector<int32_t> a = numbers(0, 33), b = numbers(100, 16);
  run_through(blocks, a);
  b.insert(b.end(), a.begin() + 16, a.end());  // the same second block after another first
  std::vector<int32_t> table;
  CHECK(blocks.reuse(table, b) == 0);
  run_through(blocks, b);
  CHECK(blocks.reuse(table, b) == 32);
  std::vector<int32_t> of_a;
  CHECK(blocks.reuse(of_a, a) == 32);
  CHECK(table[1] != of_a[1]);
}

TEST_CASE("sequences that compute the same at once lead into one branch") {
  BlockManager blocks(8);
  const std::vector<int32_t> ids = numbers(0, 40);
  std::vector<int32_t> first, second;
  blocks.grow(first, 16);
  blocks.grow(second, 40);
  blocks.remember(first, std::span(ids).first(16));
  blocks.remember(second, ids);  // its first block is known already, its second is not
  blocks.release(first);
  blocks.release(second);
  CHECK(blocks.reuse(first, ids) == 32);
}

TEST_CASE("content goes when its block is needed: the longest unused, from its end") {
  BlockManager blocks(4);
  run_through(blocks, numbers(0, 32));
  run_through(blocks, numbers(100, 32));
  std::vector<int32_t> table, probe;
  blocks.grow(table, 16);  // takes the second block of the older one
  CHECK(blocks.reuse(probe, numbers(0, 33)) == 16);
  blocks.release(probe);
  CHECK(blocks.reuse(probe, numbers(100, 33)) == 32);
  blocks.release(probe);
  blocks.grow(table, 64);
  blocks.release(table);
  CHECK(blocks.reuse(probe, numbers(100, 33)) == 0);
}

TEST_CASE("random sharing: a hit is always a true prefix, and no use is lost") {
  for (const int64_t page : {1, 2, 3}) {  // in blocks
    std::mt19937 random(2);
    const int64_t page_size = page * kKvBlockSize;
    BlockManager blocks(24 * page, page_size);
    struct Live {
      std::vector<int32_t> table, ids;
    };
    std::vector<Live> live;
    std::map<int32_t, std::vector<int32_t>> held;  // block -> ids from position 0 to its end
    int64_t num_hits = 0;
    for (int step = 0; step < 4000; ++step) {
      if (!live.empty() && (random() % 2 == 0 || blocks.num_free() < 6 * page)) {
        std::swap(live[random() % live.size()], live.back());
        blocks.release(live.back().table);
        live.pop_back();
      } else {
        Live made;
        for (size_t i = 0; i < 3; ++i) {  // few different pages, so that prefixes meet
          const auto part =
              numbers(static_cast<int32_t>(random() % 3), static_cast<int>(page_size));
          made.ids.insert(made.ids.end(), part.begin(), part.end());
        }
        made.ids.resize(1 + random() % made.ids.size());
        const int64_t hit = blocks.reuse(made.table, made.ids);
        num_hits += hit > 0;
        REQUIRE(hit < std::ssize(made.ids));
        REQUIRE(hit % page_size == 0);
        const auto ids_to_block = [&](size_t i) {
          const auto end = made.ids.begin() + static_cast<std::ptrdiff_t>((i + 1) * kKvBlockSize);
          return std::vector<int32_t>(made.ids.begin(), end);
        };
        for (size_t i = 0; i < made.table.size(); ++i) {
          REQUIRE(held.at(made.table[i]) == ids_to_block(i));
        }
        blocks.grow(made.table, std::ssize(made.ids));
        blocks.remember(made.table, made.ids);
        const size_t num_full = made.ids.size() / kKvBlockSize;
        for (size_t i = static_cast<size_t>(hit) / kKvBlockSize; i < num_full; ++i) {
          held[made.table[i]] = ids_to_block(i);
        }
        live.push_back(std::move(made));
      }
      std::set<int32_t> used;
      for (const Live& l : live) used.insert(l.table.begin(), l.table.end());
      REQUIRE(std::ssize(used) + blocks.num_free() == blocks.num_blocks());
    }
    CHECK(num_hits > 100);
  }
}

TEST_CASE("random growth and release: every block is free or in one table") {
  std::mt19937 random(1);
  const int num_blocks = 40;
  BlockManager blocks(num_blocks);
  std::vector<std::vector<int32_t>> tables(6);
  for (int step = 0; step < 2000; ++step) {
    std::vector<int32_t>& table = tables[random() % tables.size()];
    const int64_t wanted = static_cast<int64_t>(random() % 200);
    const int64_t more = blocks.blocks_for(wanted) - static_cast<int64_t>(table.size());
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
