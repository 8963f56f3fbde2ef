// The append of keys and values to the bit; prefill attention against the double reference, and to
// the bit against itself however the rows are cut.
#include "attention_world.h"

namespace llm {
namespace {

using attention_reference::Values;

constexpr KvType kKvTypes[] = {KvType::kBF16, KvType::kF8E4M3, KvType::kI8};
constexpr int kHeadDims[] = {32, 64, 80, 128, 256};

/// A number as the cache stores it, given the token's scale.
double rounded(KvType kv_type, double x, double scale) {
  if (kv_type == KvType::kBF16) return attention_reference::round_bf16(x);
  const float unit = static_cast<float>(scale == 0 ? 0 : x / scale);
  return kv_type == KvType::kI8 ? std::nearbyint(unit) : to_float(to_f8e4m3(unit));
}

/// CHECKs a token's head against its value before rounding, which float32 reaches up to a relative
/// error: on a border either neighbour is right.
void check_rounding(const AttentionShape& shape, const attention_reference::CachedToken& token,
                    const Values& exact, double error) {
  double magnitude = 0;
  for (double x : exact) magnitude = std::max(magnitude, std::abs(x));
  if (shape.has_scales()) {
    const double scale = magnitude / (shape.kv_type == KvType::kI8 ? 127.0 : 448.0);
    CHECK(std::abs(token.scale - scale) <= error * scale);
  }
  int num_wrong = 0;
  for (int d = 0; d < shape.head_dim; ++d) {
    const double low = rounded(shape.kv_type, exact[d] - error * magnitude, token.scale);
    const double high = rounded(shape.kv_type, exact[d] + error * magnitude, token.scale);
    if (token.elements[d] < low || token.elements[d] > high) ++num_wrong;
  }
  CHECK(num_wrong == 0);
}

/// The bytes beyond head_dim of a cached row.
bool ends_in_zeros(const AttentionShape& shape, const uint8_t* elements) {
  return std::all_of(elements + shape.head_dim * shape.element_bytes(),
                     elements + shape.row_bytes(), [](uint8_t x) { return x == 0; });
}

/// Results of all rows of sequence 0, run in chunks of this size.
OutBits run_in_chunks(const AttentionWorld& world, const CacheBytes& full, int size) {
  OutBits all;
  for (int first = 0; first < world.lengths[0]; first += size) {
    const std::vector<RowRange> range{{0, first, std::min(size, world.lengths[0] - first)}};
    AttentionStep step(world, world.cache_before(full, range), range);
    const OutBits out = step.prefill();
    CHECK(step.cache() == world.cache_after(full, range));
    all.insert(all.end(), out.begin(), out.end());
  }
  return all;
}

}  // namespace

TEST_CASE("appended keys and values are the double reference's, rounded to the cache's type") {
  for (KvType kv_type : kKvTypes) {
    for (int head_dim : {8, 24, 32, 64, 80, 128, 248, 256}) {
      for (bool has_norms : {true, false}) {
        CAPTURE(static_cast<int>(kv_type));
        CAPTURE(head_dim);
        const AttentionShape shape{2, 3, head_dim, kv_type, has_norms};
        const AttentionWorld world(shape, {1, 18});
        CacheBytes cache;
        for_each_schedule([&] { cache = world.full_cache(); });
        for (const auto& [seq, position] : {std::pair{0, 0}, {1, 0}, {1, 1}, {1, 17}}) {
          for (int kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
            const int slot = world.slot(seq, position);
            const auto key = attention_reference::cached_token(cache.k, shape, slot, kv_head);
            const auto value = attention_reference::cached_token(cache.v, shape, slot, kv_head);
            const float* raw = world.row(seq, position) +
                               (shape.num_heads() + shape.num_kv_heads + kv_head) * head_dim;
            // Norm and rotation: half a dozen roundings of 2^-24, of sums no larger than twice the
            // magnitude. Values: as they are, but for the division by the scale.
            check_rounding(shape, key, world.exact_key(seq, position, kv_head), 2e-6);
            check_rounding(shape, value, Values(raw, raw + head_dim),
                           shape.has_scales() ? 2e-7 : 0);
            for (const auto* plane : {&cache.k, &cache.v}) {
              const auto bytes = attention_reference::token_bytes(*plane, shape, slot, kv_head);
              CHECK(ends_in_zeros(shape, bytes.elements));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("appended 8-bit values have the CPU backend's bits") {
  for (KvType kv_type : {KvType::kF8E4M3, KvType::kI8}) {
    const AttentionShape shape{1, 2, 64, kv_type, true};
    const AttentionWorld world(shape, {50});
    const CacheBytes cache = world.full_cache();
    for (int position = 0; position < 50; ++position) {
      for (int kv_head = 0; kv_head < 2; ++kv_head) {
        const float* raw = world.row(0, position) + (4 + kv_head) * 64;
        float magnitude = 0;
        for (int d = 0; d < 64; ++d) magnitude = std::max(magnitude, std::abs(raw[d]));
        const float scale = magnitude / (kv_type == KvType::kI8 ? 127.0f : 448.0f);
        const float inverse = 1.0f / scale;
        const auto token =
            attention_reference::cached_token(cache.v, shape, world.slot(0, position), kv_head);
        CHECK(token.scale == scale);
        for (int d = 0; d < 64; ++d) {
          REQUIRE(token.elements[d] == rounded(kv_type, raw[d] * inverse, 1));
        }
      }
    }
  }
}

TEST_CASE("queries of prefill attention are the double reference's, rounded") {
  for (int head_dim : kHeadDims) {
    const AttentionWorld world({2, 2, head_dim, KvType::kBF16, true}, {20, 3});
    CAPTURE(head_dim);
    const std::vector<RowRange> ranges{{0, 13, 7, 1}, {1, 0, 3}};
    AttentionStep step(world, world.full_cache(), ranges);
    step.prefill();
    int num_near = 0;
    int row = 0;
    for (const RowRange& range : ranges) {
      for (int i = 0; i < range.count; ++i, ++row) {
        for (int head = 0; head < 4; ++head) {
          const Values exact = world.exact_query(range.seq, range.first + i, head);
          for (int d = 0; d < head_dim; ++d) {
            const double got = to_float(
                BF16{step.queries()[static_cast<size_t>((row * 4 + head) * head_dim + d)]});
            REQUIRE(std::abs(got - exact[d]) <= 0x1p-7 * std::abs(exact[d]) + 1e-7);
            if (got != exact[d]) ++num_near;
          }
        }
      }
    }
    // Off by float32's error of some 2^-22 on either side of a border, each 2^-8 apart.
    CHECK(num_near <= 10 * 4 * head_dim / 100);
  }
}

TEST_CASE("prefill attention equals the double reference for every group, head_dim, cache type") {
  for (int head_dim : kHeadDims) {
    for (int group = 1; group <= 8; ++group) {
      const KvType kv_type = kKvTypes[(group + head_dim / 16) % 3];
      const int kv_heads = group == 2 || group == 3 ? 2 : 1;
      const AttentionWorld world({group, kv_heads, head_dim, kv_type, group % 3 != 0}, {20, 70, 33},
                                 3);
      CAPTURE(head_dim);
      CAPTURE(group);
      const CacheBytes full = world.full_cache();
      const std::vector<RowRange> ranges{{0, 3, 17}, {1, 0, 70}, {2, 31, 2}};
      const auto run = [&] {
        AttentionStep step(world, world.cache_before(full, ranges), ranges);
        const OutBits out = step.prefill();
        const CacheBytes after = step.cache();
        CHECK(after == world.cache_after(full, ranges));
        check_results(world, after, ranges, out);
      };
      if (group <= 3) for_each_schedule(run);
      if (group > 3) run();
    }
  }
}

TEST_CASE("prefill attention equals the double reference at every border") {
  for (KvType kv_type : kKvTypes) {
    const AttentionWorld world({2, 1, 64, kv_type, true}, {200}, 5);
    CAPTURE(static_cast<int>(kv_type));
    const CacheBytes full = world.full_cache();
    for (int first : {0, 1, 15, 63, 64}) {
      for (int count : {1, 15, 16, 17, 63, 64, 65, 128}) {
        CAPTURE(first);
        CAPTURE(count);
        const std::vector<RowRange> range{{0, first, count}};
        AttentionStep step(world, world.cache_before(full, range), range);
        const OutBits out = step.prefill();
        check_results(world, step.cache(), range, out);
      }
    }
  }
}

TEST_CASE("prefill attention equals the double reference after a thousand keys") {
  const AttentionWorld world({2, 1, 64, KvType::kF8E4M3, true}, {1050}, 7);
  const CacheBytes full = world.full_cache();
  const std::vector<RowRange> range{{0, 1000, 50}};
  AttentionStep step(world, world.cache_before(full, range), range);
  const OutBits out = step.prefill();
  check_results(world, step.cache(), range, out);
}

TEST_CASE("prefill attention gives the same bits for any cut of the rows") {
  for (KvType kv_type : kKvTypes) {
    for (int head_dim : kHeadDims) {
      const AttentionWorld world({2, 1, head_dim, kv_type, true}, {150}, 11);
      CAPTURE(static_cast<int>(kv_type));
      CAPTURE(head_dim);
      const CacheBytes full = world.full_cache();
      const OutBits whole = run_in_chunks(world, full, 150);
      for (int size : {64, 37}) {
        CAPTURE(size);
        CHECK(run_in_chunks(world, full, size) == whole);
      }
      if (head_dim == 32)
        for_each_schedule([&] { CHECK(run_in_chunks(world, full, 101) == whole); });
      if (head_dim == 32) CHECK(run_in_chunks(world, full, 1) == whole);
    }
  }
}

TEST_CASE("a sequence of prefill attention has the same bits alone and beside others") {
  for (KvType kv_type : kKvTypes) {
    const AttentionWorld world({2, 2, 64, kv_type, true}, {90, 40, 70}, 13);
    CAPTURE(static_cast<int>(kv_type));
    const CacheBytes full = world.full_cache();
    const std::vector<RowRange> ranges{{2, 5, 65}, {0, 0, 90}, {1, 39, 1}};
    AttentionStep together(world, world.cache_before(full, ranges), ranges);
    OutBits out = together.prefill();
    for (const RowRange& range : ranges) {
      AttentionStep alone(world, world.cache_before(full, {range}), {range});
      const OutBits expected = alone.prefill();
      const auto end = out.begin() + static_cast<int64_t>(expected.size());
      CHECK(OutBits(out.begin(), end) == expected);
      out.erase(out.begin(), end);
    }
  }
}

TEST_CASE("padding rows of prefill attention give zeros and leave the cache alone") {
  for (KvType kv_type : kKvTypes) {
    const AttentionWorld world({2, 2, 64, kv_type, true}, {90, 20}, 17);
    CAPTURE(static_cast<int>(kv_type));
    const CacheBytes full = world.full_cache();
    const std::vector<RowRange> ranges{{0, 10, 70, 5}, {1, 4, 3, 3}};
    AttentionStep step(world, world.cache_before(full, ranges), ranges);
    const OutBits out = step.prefill();
    CHECK(step.cache() == world.cache_after(full, ranges));
    check_results(world, step.cache(), ranges, out);
  }
}

TEST_CASE("prefill attention shows what isn't finite to the rows that see it") {
  for (KvType kv_type : kKvTypes) {
    for (int column : {0, 1}) {  // a key's, a value's
      // 0 times a NaN is NaN: what a later BF16 value of the same step holds, earlier rows meet.
      if (kv_type == KvType::kBF16 && column == 1) continue;
      AttentionWorld world({1, 1, 32, kv_type, false}, {100}, 19);
      CAPTURE(static_cast<int>(kv_type));
      CAPTURE(column);
      const AttentionWorld sound = world;
      world.row(0, 70)[(1 + column) * 32 + 5] = kv_type == KvType::kBF16 ? NAN : INFINITY;
      const OutBits out = run_in_chunks(world, world.full_cache(), 100);
      const OutBits expected = run_in_chunks(sound, sound.full_cache(), 100);
      CHECK(std::equal(out.begin(), out.begin() + 70 * 32, expected.begin()));
      for (int row : {70, 71, 99}) {
        CHECK(std::isnan(to_float(BF16{out[static_cast<size_t>(row * 32 + 5)]})));
      }
    }
  }
}

}  // namespace llm
