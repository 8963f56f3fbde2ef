#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/dtype.h"

using namespace llm;

namespace {

/// The number that a binary format's bits stand for, by its definition: sign, exponent with bias,
/// mantissa; subnormals; infinities and NaN. Computed in double, which holds all of them.
double value_of(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const uint32_t exponent = (bits >> mantissa_bits) & ((1u << exponent_bits) - 1);
  const bool negative = (bits >> (mantissa_bits + exponent_bits)) & 1;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  double magnitude = 0;
  if (exponent == (1u << exponent_bits) - 1) {
    magnitude = mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                              : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    magnitude = mantissa * std::pow(2.0, 1 - bias - mantissa_bits);
  } else {
    magnitude = (1.0 + mantissa * std::pow(2.0, -mantissa_bits)) *
                std::pow(2.0, static_cast<int>(exponent) - bias);
  }
  return negative ? -magnitude : magnitude;
}

bool same_number(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

/// A 16-bit format under test.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);

  double value(uint32_t bits) const { return value_of(bits, exponent_bits, mantissa_bits); }
  uint16_t infinity() const {
    return static_cast<uint16_t>(((1u << exponent_bits) - 1) << mantissa_bits);
  }
};

const Format kF16 = {5, 10, [](uint16_t b) { return to_float(F16{b}); },
                     [](float x) { return to_f16(x).bits; }};
const Format kBF16 = {8, 7, [](uint16_t b) { return to_float(BF16{b}); },
                      [](float x) { return to_bf16(x).bits; }};

int wrong_widenings(const Format& f) {
  int wrong = 0;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    wrong += !same_number(f.widen(static_cast<uint16_t>(bits)), f.value(bits));
  }
  return wrong;
}

int wrong_round_trips(const Format& f) {
  int wrong = 0;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const double v = f.value(bits);
    const uint16_t back = f.narrow(static_cast<float>(v));
    wrong += std::isnan(v) ? !std::isnan(f.value(back)) : back != bits;
  }
  return wrong;
}

/// Rounding between every pair of neighbours, infinity included: at the middle the even one, just
/// beside it the nearer one.
int wrong_roundings(const Format& f) {
  int wrong = 0;
  for (uint32_t sign : {0u, 0x8000u}) {
    for (uint32_t low = 0; low < f.infinity(); ++low) {
      const uint32_t high = low + 1;
      const double below = f.value(low);
      // Past the largest finite number the format counts on as if the exponent had room.
      const double above = high == f.infinity() ? 2 * below - f.value(low - 1) : f.value(high);
      const double middle = (below + above) / 2;
      const float half = static_cast<float>(middle);  // exact, if it isn't beyond float's range
      if (std::isinf(half)) continue;
      const float side = sign ? -1.0f : 1.0f;
      const float less = std::nextafter(half, 0.0f);
      const float more = std::nextafter(half, std::numeric_limits<float>::infinity());
      const uint32_t even = low % 2 == 0 ? low : high;
      wrong += f.narrow(side * half) != (sign | even);
      wrong += f.narrow(side * less) != (sign | low);
      wrong += f.narrow(side * more) != (sign | high);
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("dtype: all 65536 half and bfloat16 values widen to the number they stand for") {
  CHECK(wrong_widenings(kF16) == 0);
  CHECK(wrong_widenings(kBF16) == 0);
}

TEST_CASE("dtype: all 65536 half and bfloat16 values survive float and back") {
  CHECK(wrong_round_trips(kF16) == 0);
  CHECK(wrong_round_trips(kBF16) == 0);
}

TEST_CASE("dtype: narrowing rounds to nearest, ties to even, between all neighbours") {
  CHECK(wrong_roundings(kF16) == 0);
  CHECK(wrong_roundings(kBF16) == 0);
}

TEST_CASE("dtype: overflow, infinity and NaN when narrowing") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(to_f16(infinity).bits == 0x7c00);
  CHECK(to_f16(-infinity).bits == 0xfc00);
  CHECK(to_f16(1e10f).bits == 0x7c00);
  CHECK(to_bf16(infinity).bits == 0x7f80);
  CHECK(to_bf16(std::numeric_limits<float>::max()).bits == 0x7f80);
  // NaNs whose payload lies only in the bits that are dropped must not become infinities.
  for (const uint32_t nan : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0x7fc00000u}) {
    CHECK(std::isnan(to_float(to_f16(std::bit_cast<float>(nan)))));
    CHECK(std::isnan(to_float(to_bf16(std::bit_cast<float>(nan)))));
  }
}

TEST_CASE("dtype: E4M3 rounds to the nearest value of its table, ties to even") {
  std::vector<float> values;  // of the codes 0 to 0x7e, ascending
  for (int code = 0; code < 0x7f; ++code) {
    const int exponent = code >> 3;
    const int mantissa = code & 7;
    values.push_back(exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                   : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10));
    CHECK(to_float(F8E4M3{static_cast<uint8_t>(code)}) == values.back());
    CHECK(to_float(F8E4M3{static_cast<uint8_t>(code | 0x80)}) == -values.back());
  }
  CHECK(values.back() == kMaxF8E4M3);
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    CAPTURE(values[i]);
    const float middle = (values[i] + values[i + 1]) / 2;
    const size_t even = i % 2 == 0 ? i : i + 1;
    CHECK(to_f8e4m3(values[i]).bits == i);
    CHECK(to_f8e4m3(-values[i]).bits == (i | 0x80));
    CHECK(to_f8e4m3(middle).bits == even);
    CHECK(to_f8e4m3(std::nextafter(middle, 0.0f)).bits == i);
    CHECK(to_f8e4m3(std::nextafter(middle, 1e9f)).bits == i + 1);
  }
  for (const float large : {449.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    CHECK(to_float(to_f8e4m3(large)) == kMaxF8E4M3);
    CHECK(to_float(to_f8e4m3(-large)) == -kMaxF8E4M3);
  }
  const float nan = to_float(to_f8e4m3(std::numeric_limits<float>::quiet_NaN()));
  CHECK(nan != nan);
}

TEST_CASE("dtype: names and sizes of the safetensors format") {
  struct Row {
    DType dtype;
    const char* name;
    int bits;
  };
  // The order of the enumeration is not taken from the table under test.
  const std::vector<Row> rows = {{DType::kBool, "BOOL", 8},
                                 {DType::kU8, "U8", 8},
                                 {DType::kI8, "I8", 8},
                                 {DType::kF8E5M2, "F8_E5M2", 8},
                                 {DType::kF8E4M3, "F8_E4M3", 8},
                                 {DType::kF8E8M0, "F8_E8M0", 8},
                                 {DType::kI16, "I16", 16},
                                 {DType::kU16, "U16", 16},
                                 {DType::kF16, "F16", 16},
                                 {DType::kBF16, "BF16", 16},
                                 {DType::kI32, "I32", 32},
                                 {DType::kU32, "U32", 32},
                                 {DType::kF32, "F32", 32},
                                 {DType::kI64, "I64", 64},
                                 {DType::kU64, "U64", 64},
                                 {DType::kF64, "F64", 64},
                                 {DType::kC64, "C64", 64},
                                 {DType::kF4, "F4", 4},
                                 {DType::kF6E2M3, "F6_E2M3", 6},
                                 {DType::kF6E3M2, "F6_E3M2", 6},
                                 {DType::kF8E4M3FNUZ, "F8_E4M3FNUZ", 8},
                                 {DType::kF8E5M2FNUZ, "F8_E5M2FNUZ", 8}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(name_of(row.dtype) == row.name);
    CHECK(bits_of(row.dtype) == row.bits);
    CHECK(dtype_from_name(row.name) == row.dtype);
  }
  for (const char* unknown : {"", "f32", "F32 ", "F128", "BF1"}) {
    CHECK(!dtype_from_name(unknown).has_value());
  }
}
