// Decode attention against the double reference, and to the bit against itself with other rows
// beside it, other splits, and keys from the cache instead of from this step.
#include "attention_world.h"

namespace llm {
namespace {

constexpr KvType kKvTypes[] = {KvType::kBF16, KvType::kF8E4M3, KvType::kI8};

/// Runs the ranges once and compares results, appended tokens and all that must stay.
OutBits run_and_check(const AttentionWorld& world, const CacheBytes& full,
                      const std::vector<RowRange>& ranges) {
  AttentionStep step(world, world.cache_before(full, ranges), ranges);
  const OutBits out = step.decode();
  const CacheBytes after = step.cache();
  CHECK(after == world.cache_after(full, ranges));
  check_results(world, after, ranges, out);
  return out;
}

}  // namespace

TEST_CASE("decode attention equals the double reference for every group, head_dim and cache type") {
  for (int head_dim : {32, 64, 80, 128, 256}) {
    for (int group = 1; group <= 8; ++group) {
      const KvType kv_type = kKvTypes[(group + head_dim / 16) % 3];
      const AttentionWorld world({group, 2, head_dim, kv_type, group % 3 != 0},
                                 {1, 16, 17, 65, 64});
      CAPTURE(head_dim);
      CAPTURE(group);
      const CacheBytes full = world.full_cache();
      const std::vector<RowRange> ranges{{0, 0}, {1, 15}, {2, 16}, {3, 62, 3}, {4, 63}};
      for_each_schedule([&] { run_and_check(world, full, ranges); });
    }
  }
}

TEST_CASE("decode attention equals the double reference at every border of blocks and splits") {
  for (KvType kv_type : kKvTypes) {
    const AttentionWorld world({2, 1, 32, kv_type, true}, {1100, 1100, 1100}, 3);
    CAPTURE(static_cast<int>(kv_type));
    const CacheBytes full = world.full_cache();
    for (int length : {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 1022, 1023, 1024, 1025,
                       1026, 1087}) {
      CAPTURE(length);
      run_and_check(world, full, {{0, length - 1}});
    }
    for_each_schedule([&] { run_and_check(world, full, {{0, 1022}, {1, 1023}, {2, 1024}}); });
  }
}

TEST_CASE("decode attention equals the double reference over a few thousand keys") {
  const AttentionWorld world({8, 1, 64, KvType::kBF16, true}, {3001}, 5);
  run_and_check(world, world.full_cache(), {{0, 3000}});
}

TEST_CASE("verify rows of decode attention cross blocks and splits") {
  for (KvType kv_type : kKvTypes) {
    const AttentionWorld world({2, 2, 32, kv_type, true}, {1032, 80, 80}, 7);
    CAPTURE(static_cast<int>(kv_type));
    const CacheBytes full = world.full_cache();
    for (int count : {2, 3, 4, 5, 9}) {
      CAPTURE(count);
      run_and_check(
          world, full,
          {{0, 1024 - count / 2, count}, {1, 64 - count / 2, count}, {2, 16 - count / 2, count}});
    }
    for_each_schedule([&] { run_and_check(world, full, {{0, 1019, 9}, {1, 60, 9}, {2, 0, 9}}); });
  }
}

TEST_CASE("a row of decode attention has the same bits alone and beside others") {
  for (KvType kv_type : kKvTypes) {
    for (int group : {1, 2, 3, 8}) {
      const AttentionWorld world({group, 1, 64, kv_type, true}, {1030, 70, 300}, 11);
      CAPTURE(static_cast<int>(kv_type));
      CAPTURE(group);
      const CacheBytes full = world.full_cache();
      const std::vector<RowRange> together{{2, 299}, {0, 1019, 9}, {1, 60, 9}};
      AttentionStep step(world, world.cache_before(full, together), together);
      const OutBits out = step.decode();
      int row = 0;
      for (const RowRange& range : together) {
        for (int i = 0; i < range.count; ++i, ++row) {
          CAPTURE(range.first + i);
          const std::vector<RowRange> alone{{range.seq, range.first + i}};
          AttentionStep single(world, world.cache_before(full, alone), alone);
          CHECK(single.decode() == row_of(out, world.shape, row));
        }
      }
    }
  }
}

TEST_CASE("decode attention takes this step's tokens from qkv or from the cache alike") {
  for (KvType kv_type : kKvTypes) {
    for (int head_dim : {80, 128}) {
      const AttentionWorld world({2, 2, head_dim, kv_type, true}, {70, 18}, 13);
      CAPTURE(static_cast<int>(kv_type));
      const CacheBytes full = world.full_cache();
      const std::vector<RowRange> ranges{{0, 61, 9}, {1, 14, 4}};
      AttentionStep appending(world, world.cache_before(full, ranges), ranges);
      AttentionStep reading(world, world.cache_before(full, ranges), ranges);
      CHECK(appending.decode() == reading.decode(false));
      CHECK(appending.cache() == reading.cache());
    }
  }
}

TEST_CASE("a scratch serves steps of every size, one after the other") {
  const AttentionWorld world({2, 2, 32, KvType::kBF16, true}, {400, 1100, 30}, 17);
  const CacheBytes full = world.full_cache();
  const std::vector<std::vector<RowRange>> steps{
      {{0, 390, 9}, {1, 1090, 9}, {2, 20, 9}}, {{1, 500}}, {{0, 399}, {1, 1000}}, {{2, 3}}};
  for_each_schedule([&] {
    AttentionStep largest(world, full, steps[0]);
    DeviceArray<uint8_t> scratch(decode_attention_scratch_bytes(largest.args(), 64, 20));
    scratch.fill(0);
    for (int repeat = 0; repeat < 2; ++repeat) {
      for (const std::vector<RowRange>& ranges : steps) {
        AttentionStep step(world, world.cache_before(full, ranges), ranges);
        AttentionStep fresh(world, world.cache_before(full, ranges), ranges);
        CHECK(step.decode(true, &scratch) == fresh.decode());
      }
    }
  });
}

TEST_CASE("padding rows of decode attention give zeros and leave the cache alone") {
  for (KvType kv_type : kKvTypes) {
    const AttentionWorld world({4, 2, 64, kv_type, true}, {40, 20, 70}, 19);
    CAPTURE(static_cast<int>(kv_type));
    const CacheBytes full = world.full_cache();
    for (bool appends : {true, false}) {
      // Two rows a tile: padding in one of them, or in both.
      const std::vector<RowRange> ranges{{0, 35, 4, 2}, {1, 7, 1, 1}, {2, 66, 4, 1}};
      AttentionStep step(world, world.cache_before(full, ranges), ranges);
      const OutBits out = step.decode(appends);
      CHECK(step.cache() == world.cache_after(full, ranges));
      check_results(world, step.cache(), ranges, out);
    }
  }
}

TEST_CASE("decode attention shows values that aren't finite, to the rows that see them") {
  for (KvType kv_type : kKvTypes) {
    // In the lower and the upper half of a key, and of a value.
    for (int element : {5, 21, 32 + 5, 32 + 21}) {
      AttentionWorld world({2, 1, 32, kv_type, false}, {40}, 23);
      CAPTURE(static_cast<int>(kv_type));
      CAPTURE(element);
      world.row(0, 20)[2 * 32 + element] = NAN;
      const CacheBytes full = world.full_cache();
      const auto has_nan = [&](RowRange range) {
        AttentionStep step(world, world.cache_before(full, {range}), {range});
        const OutBits out = step.decode();
        CHECK(step.cache() == world.cache_after(full, {range}));
        return std::any_of(out.begin(), out.end(),
                           [](uint16_t bits) { return std::isnan(to_float(BF16{bits})); });
      };
      CHECK_FALSE(has_nan({0, 19}));
      CHECK(has_nan({0, 20}));
      CHECK(has_nan({0, 39}));
    }
  }
}

TEST_CASE("a verify row of decode attention that isn't finite leaves the rows before it alone") {
  for (KvType kv_type : kKvTypes) {
    for (int column : {0, 1}) {  // a key's, a value's
      // 0 times a NaN is NaN: a BF16 value reaches the other rows of its tile.
      if (kv_type == KvType::kBF16 && column == 1) continue;
      AttentionWorld world({2, 1, 32, kv_type, false}, {40}, 31);
      CAPTURE(static_cast<int>(kv_type));
      CAPTURE(column);
      const std::vector<RowRange> ranges{{0, 18, 4}};
      const auto run = [&] {
        const CacheBytes full = world.full_cache();
        AttentionStep step(world, world.cache_before(full, ranges), ranges);
        return step.decode();
      };
      const OutBits sound = run();
      world.row(0, 20)[(2 + column) * 32 + 5] = NAN;
      const OutBits out = run();
      for (int row : {0, 1}) {
        CHECK(row_of(out, world.shape, row) == row_of(sound, world.shape, row));
      }
      CHECK(std::isnan(to_float(BF16{row_of(out, world.shape, 2)[5]})));
    }
  }
}

TEST_CASE("decode attention of vanishing keys and values is zero") {
  for (KvType kv_type : kKvTypes) {
    AttentionWorld world({2, 1, 32, kv_type, false}, {20}, 29);
    std::fill(world.qkv.begin(), world.qkv.end(), 0.0f);
    const CacheBytes full = world.full_cache();
    AttentionStep step(world, world.cache_before(full, {{0, 18, 2}}), {{0, 18, 2}});
    CHECK(step.decode() == OutBits(2 * 64, 0));
    CHECK(step.cache() == world.cache_after(full, {{0, 18, 2}}));
  }
}

TEST_CASE("decode attention refuses shapes that it has no kernel for") {
  for (const AttentionShape& shape : {AttentionShape{9, 1, 64, KvType::kBF16, false},
                                      AttentionShape{1, 1, 264, KvType::kBF16, false},
                                      AttentionShape{1, 1, 36, KvType::kBF16, false}}) {
    AttentionArgs args;
    args.num_heads = shape.num_heads();
    args.num_kv_heads = shape.num_kv_heads;
    args.head_dim = shape.head_dim;
    DecodeAttention decode;
    decode.num_tiles = decode.max_splits = 1;
    CHECK_THROWS(launch_decode_attention(args, decode, nullptr));
  }
}

}  // namespace llm
