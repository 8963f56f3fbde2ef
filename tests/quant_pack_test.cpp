// Every stored layout, written by slow encoders of its own, against what pack() makes of it.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "base/thread_pool.h"
#include "quant/stored_matrix.h"

namespace llm {
namespace {

struct Case {
  StoredLayout layout;
  int bits;
  int64_t n, k, group_size;
  bool zeros = true;
  bool shuffled = false;  // g_idx in random order
  ZeroRule rule = ZeroRule::kAsStored;
};

/// Codes, zeros and scales, and the tensors that hold them at an odd address.
struct Stored {
  explicit Stored(const Case& c) : spec(c), groups((c.k + c.group_size - 1) / c.group_size) {
    std::mt19937 rng(7);
    const int top = (1 << c.bits) - 1;
    std::uniform_int_distribution<int> code(0, top);
    for (int64_t i = 0; i < c.n * c.k; ++i) codes.push_back(code(rng));
    for (int64_t i = 0; i < c.n * groups; ++i) {
      zeros.push_back(c.zeros ? code(rng) : 1 << (c.bits - 1));
      scales.push_back(to_float(to_f16(0.01f + 0.001f * static_cast<float>(i % 90))));
    }
    for (int64_t j = 0; j < c.k; ++j) group_of.push_back(static_cast<int32_t>(j / c.group_size));
    if (c.shuffled) std::shuffle(group_of.begin(), group_of.end(), rng);
  }

  int code(int64_t o, int64_t j) const { return codes[static_cast<size_t>(o * spec.k + j)]; }
  int zero(int64_t o, int64_t g) const { return zeros[static_cast<size_t>(o * groups + g)]; }
  float scale(int64_t o, int64_t g) const { return scales[static_cast<size_t>(o * groups + g)]; }
  float weight(int64_t o, int64_t j) const {
    const int64_t g = group_of[static_cast<size_t>(j)];
    return static_cast<float>(code(o, j) - zero(o, g)) * scale(o, g);
  }

  Case spec;
  int64_t groups;
  std::vector<int> codes;         // [n, k]
  std::vector<int> zeros;         // [n, groups]
  std::vector<float> scales;      // [n, groups]
  std::vector<int32_t> group_of;  // [k]
};

/// A tensor that begins one byte past an aligned address.
class Unaligned {
 public:
  Unaligned(DType dtype, const Shape& shape)
      : bytes_(static_cast<size_t>(byte_size(dtype, shape) + 1)), dtype_(dtype), shape_(shape) {}
  std::byte* data() { return bytes_.data() + 1; }
  ConstTensor tensor() { return {data(), dtype_, shape_}; }
  /// Sets `bits` bits from bit `at` of the 32-bit words word(0), word(1), .. of a stream.
  template <typename WordAt>
  void put(int64_t at, int bits, int value, WordAt word) {
    for (int b = 0; b < bits; ++b, ++at) {
      uint32_t w;
      std::memcpy(&w, data() + word(at / 32) * 4, 4);
      w |= static_cast<uint32_t>(value >> b & 1) << at % 32;
      std::memcpy(data() + word(at / 32) * 4, &w, 4);
    }
  }
  void put_f16(int64_t i, float value) {
    const F16 half = to_f16(value);
    std::memcpy(data() + i * 2, &half, 2);
  }

 private:
  std::vector<std::byte> bytes_;
  DType dtype_;
  Shape shape_;
};

int64_t words_for(int64_t codes, int bits) { return (codes * bits + 31) / 32; }

/// A zero as the rule stores it, in one code; borrows between codes are the test's own business.
int stored_zero_of(const Case& c, int zero) {
  return c.rule == ZeroRule::kAsStored ? zero : (zero - 1) & ((1 << c.bits) - 1);
}

struct Encoded {
  Encoded(const Stored& s)
      : codes(DType::kI32, codes_shape(s)),
        zeros(DType::kI32, zeros_shape(s)),
        scales(DType::kF16, {s.groups * s.spec.n}),
        g_idx(DType::kI32, {s.spec.k}) {
    const Case& c = s.spec;
    constexpr int kNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    for (int64_t o = 0; o < c.n; ++o) {
      for (int64_t j = 0; j < c.k; ++j) {
        if (c.layout == StoredLayout::kGptq) {
          codes.put(j * c.bits, c.bits, s.code(o, j), [&](int64_t w) { return w * c.n + o; });
        } else if (c.layout == StoredLayout::kAwq) {
          codes.put(kNibble[o % 8] * 4, 4, s.code(o, j),
                    [&](int64_t) { return j * (c.n / 8) + o / 8; });
        } else {
          codes.put(j * c.bits, c.bits, s.code(o, j),
                    [&](int64_t w) { return o * words_for(c.k, c.bits) + w; });
        }
      }
      for (int64_t g = 0; g < s.groups; ++g) {
        const int zero = stored_zero_of(c, s.zero(o, g));
        if (c.layout == StoredLayout::kGptq) {
          zeros.put(o * c.bits, c.bits, zero,
                    [&](int64_t w) { return g * words_for(c.n, c.bits) + w; });
        } else if (c.layout == StoredLayout::kAwq) {
          zeros.put(kNibble[o % 8] * 4, 4, zero, [&](int64_t) { return g * (c.n / 8) + o / 8; });
        } else {
          zeros.put(o * c.bits, c.bits, zero, [&](int64_t w) { return w * s.groups + g; });
        }
        const bool rows = c.layout == StoredLayout::kPackedRows;
        scales.put_f16(rows ? o * s.groups + g : g * c.n + o, s.scale(o, g));
      }
    }
    std::memcpy(g_idx.data(), s.group_of.data(), s.group_of.size() * 4);
  }

  static Shape codes_shape(const Stored& s) {
    const Case& c = s.spec;
    if (c.layout == StoredLayout::kGptq) return {words_for(c.k, c.bits), c.n};
    if (c.layout == StoredLayout::kAwq) return {c.k, c.n / 8};
    return {c.n, words_for(c.k, c.bits)};
  }
  static Shape zeros_shape(const Stored& s) {
    const Case& c = s.spec;
    if (c.layout == StoredLayout::kPackedRows) return {words_for(c.n, c.bits), s.groups};
    return {s.groups, c.layout == StoredLayout::kAwq ? c.n / 8 : words_for(c.n, c.bits)};
  }

  StoredMatrix matrix(const Case& c) {
    StoredMatrix m;
    m.layout = c.layout;
    m.shape = {.type = c.bits == 8 ? CodeType::kU8 : CodeType::kU4,
               .n = c.n,
               .k = c.k,
               .group_size = c.group_size};
    m.bits = c.bits;
    m.zero_rule = c.rule;
    m.codes = codes.tensor();
    m.zeros = zeros.tensor();
    m.scales = scales.tensor();
    if (c.layout != StoredLayout::kAwq) m.g_idx = g_idx.tensor();
    return m;
  }

  Unaligned codes, zeros, scales, g_idx;
};

/// Packs with so many threads; the memory goes with the view.
struct Packed {
  Packed(const StoredMatrix& from, int threads) : memory(from.shape.bytes()) {
    ThreadPool pool(threads);
    view = pack(from, memory.data(), pool);
  }
  std::vector<float> row(int64_t output) const {
    std::vector<float> values(static_cast<size_t>(view.shape.k));
    unpack_row(values.data(), view, output);
    return values;
  }
  Buffer memory;
  PackedMatrix view;
};

void check_all(const Packed& packed, const Stored& expected) {
  for (int64_t o = 0; o < expected.spec.n; ++o) {
    const std::vector<float> row = packed.row(o);
    for (int64_t j = 0; j < expected.spec.k; ++j) {
      REQUIRE(row[static_cast<size_t>(j)] == expected.weight(o, j));
    }
  }
}

}  // namespace

TEST_CASE("pack: every layout of codes, exactly") {
  constexpr auto kGptq = StoredLayout::kGptq;
  constexpr auto kAwq = StoredLayout::kAwq;
  constexpr auto kRows = StoredLayout::kPackedRows;
  const Case cases[] = {
      {kGptq, 2, 32, 64, 32},
      {kGptq, 3, 32, 96, 32},
      {kGptq, 4, 40, 160, 64},
      {kGptq, 8, 32, 64, 64},
      {kGptq, 4, 32, 128, 128, false},
      {kGptq, 4, 32, 128, 32, true, true},
      {kGptq, 4, 32, 128, 32, true, false, ZeroRule::kMinusOne},
      {kGptq, 3, 32, 96, 96, true, false, ZeroRule::kMinusOneInWord},
      {kAwq, 4, 24, 130, 64},
      {kAwq, 4, 64, 128, 128},
      {kRows, 4, 17, 200, 64},
      {kRows, 4, 64, 128, 32, true, true},
      {kRows, 8, 19, 70, 70},
      {kRows, 3, 32, 96, 32},
  };
  for (const Case& c : cases) {
    CAPTURE(static_cast<int>(c.layout));
    CAPTURE(c.bits);
    CAPTURE(c.n);
    CAPTURE(c.k);
    const Stored stored(c);
    Encoded encoded(stored);
    StoredMatrix matrix = encoded.matrix(c);
    REQUIRE(settle(matrix) == "");
    CHECK(matrix.shape.has_zeros == c.zeros);
    CHECK(matrix.shape.has_order == c.shuffled);
    const Packed one(matrix, 1);
    check_all(one, stored);
    const Packed three(matrix, 3);
    CHECK(std::memcmp(one.memory.data(), three.memory.data(),
                      static_cast<size_t>(matrix.shape.bytes())) == 0);
  }
}

TEST_CASE("pack: GPTQModel's zeros borrow from the next code of their word") {
  const Case c{StoredLayout::kGptq, 4, 32, 64, 64, true, false, ZeroRule::kMinusOneInWord};
  Stored stored(c);
  stored.zeros[1] = 0;  // borrows from output 2
  Case as_stored = c;
  as_stored.rule = ZeroRule::kAsStored;
  Stored plain(as_stored);
  plain.zeros = stored.zeros;
  Encoded encoded(plain);
  for (int64_t word = 0; word < 4; ++word) {
    uint32_t w;
    std::memcpy(&w, encoded.zeros.data() + word * 4, 4);
    w -= 0x11111111u;
    std::memcpy(encoded.zeros.data() + word * 4, &w, 4);
  }
  StoredMatrix matrix = encoded.matrix(c);
  REQUIRE(settle(matrix) == "");
  check_all(Packed(matrix, 1), stored);
}

TEST_CASE("pack: rows of bytes, with scales of rows, blocks and all") {
  constexpr int64_t kN = 130, kK = 132;
  Unaligned codes(DType::kF8E4M3, {kN, kK});
  for (int64_t i = 0; i < kN * kK; ++i) {
    codes.data()[i] = static_cast<std::byte>(i % 127 | (i % 3 == 0 ? 0x80 : 0));
  }
  struct Scales {
    int64_t rows, group;
  };
  for (const Scales s : {Scales{1, kK}, Scales{128, 128}, Scales{kN, kK}}) {
    const int64_t groups = (kK + s.group - 1) / s.group;
    const int64_t scale_rows = (kN + s.rows - 1) / s.rows;
    Unaligned scales(DType::kF16, {scale_rows, groups});
    for (int64_t i = 0; i < scale_rows * groups; ++i) {
      scales.put_f16(i, 0.5f + static_cast<float>(i));
    }
    StoredMatrix m;
    m.shape = {.type = CodeType::kF8E4M3, .n = kN, .k = kK, .group_size = s.group};
    m.scale_rows = s.rows;
    m.codes = codes.tensor();
    m.scales = scales.tensor();
    REQUIRE(settle(m) == "");
    const Packed packed(m, 2);
    for (int64_t o = 0; o < kN; ++o) {
      const std::vector<float> row = packed.row(o);
      for (int64_t j = 0; j < kK; ++j) {
        const float value = to_float(F8E4M3{static_cast<uint8_t>(codes.data()[o * kK + j])});
        const float scale = 0.5f + static_cast<float>(o / s.rows * groups + j / s.group);
        REQUIRE(row[static_cast<size_t>(j)] == value * scale);
      }
    }
  }
}

TEST_CASE("pack: plain rows are rounded to 8 bits, half a step off at most") {
  constexpr int64_t kN = 18, kK = 70;
  std::vector<float> values(kN * kK);
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 0.1f);
  for (float& value : values) value = normal(rng);
  std::fill_n(values.begin() + 5 * kK, kK, 0.0f);
  StoredMatrix m;
  m.layout = StoredLayout::kPlainRows;
  m.shape = {.type = CodeType::kU8, .n = kN, .k = kK, .group_size = kK};
  m.zero = 128;
  m.codes = {reinterpret_cast<const std::byte*>(values.data()), DType::kF32, {kN, kK}};
  const Packed packed(m, 2);
  for (int64_t o = 0; o < kN; ++o) {
    float largest = 0;
    for (int64_t j = 0; j < kK; ++j) largest = std::max(largest, std::fabs(values[o * kK + j]));
    const std::vector<float> row = packed.row(o);
    for (int64_t j = 0; j < kK; ++j) {
      REQUIRE(std::fabs(row[static_cast<size_t>(j)] - values[o * kK + j]) <=
              largest / 254 * 1.0001f);
    }
  }
}

TEST_CASE("settle: says which scale or group is wrong") {
  const Case c{StoredLayout::kGptq, 4, 32, 64, 32};
  const Stored stored(c);
  {
    Encoded encoded(stored);
    encoded.scales.put_f16(33, 0.0f);
    StoredMatrix m = encoded.matrix(c);
    CHECK(settle(m).find("the scale of output 1, group 1 is 0") == 0);
  }
  {
    Encoded encoded(stored);
    const int32_t group = 2;
    std::memcpy(encoded.g_idx.data() + 4 * 9, &group, 4);
    StoredMatrix m = encoded.matrix(c);
    CHECK(settle(m) == "channel 9 is in group 2, expected 0 to 1");
  }
  {
    Encoded encoded(stored);
    const int32_t group = 1;
    std::memcpy(encoded.g_idx.data() + 4 * 9, &group, 4);
    StoredMatrix m = encoded.matrix(c);
    CHECK(settle(m) == "group 0 has 31 channels, expected 32");
  }
}

}  // namespace llm
