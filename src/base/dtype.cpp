#include "base/dtype.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

namespace llm {
namespace {

struct DTypeInfo {
  std::string_view name;
  int bits;
};

// Indexed by DType.
constexpr std::array<DTypeInfo, 22> kInfo = {{
    {"BOOL", 8},    {"U8", 8},          {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},
    {"F16", 16},    {"BF16", 16},       {"I32", 32},        {"U32", 32},    {"F32", 32},
    {"I64", 64},    {"U64", 64},        {"F64", 64},        {"C64", 64},    {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6},
}};

}  // namespace

int bits_of(DType dtype) { return kInfo[static_cast<size_t>(dtype)].bits; }

std::string_view name_of(DType dtype) { return kInfo[static_cast<size_t>(dtype)].name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < kInfo.size(); ++i) {
    if (kInfo[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

F8E4M3 to_f8e4m3(float x) {
  constexpr uint32_t kDenormMagic = 0x46800000u;  // 2^14, whose unit is 2^-9, the smallest value
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (u >> 24) & 0x80u;
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint8_t>(sign | 0x7fu)};
  const uint32_t clipped = std::min(magnitude, std::bit_cast<uint32_t>(kMaxF8E4M3));
  const float shifted = std::bit_cast<float>(clipped) + std::bit_cast<float>(kDenormMagic);
  const uint32_t denormal = std::bit_cast<uint32_t>(shifted) - kDenormMagic;
  const uint32_t rounded = (clipped + 0x7ffffu + ((clipped >> 20) & 1)) >> 20;
  const bool is_normal = clipped >= 0x3c800000u;  // 2^-6
  return {static_cast<uint8_t>(sign | (is_normal ? rounded - (120u << 3) : denormal))};
}

float to_float(F8E4M3 x) {
  const uint32_t magnitude = x.bits & 0x7fu;
  if (magnitude == 0x7fu) return std::numeric_limits<float>::quiet_NaN();
  // The exponent's bias is 7 here and 127 there.
  const float value = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
  return (x.bits & 0x80u) != 0 ? -value : value;
}

float to_float(F16 x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16;
  const int exponent = (x.bits >> 10) & 0x1f;
  const uint32_t mantissa = x.bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | static_cast<uint32_t>(exponent + 112) << 23 | mantissa << 13);
}

F16 to_f16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // >= 65520
  if (magnitude < 0x38800000u) {  // below the smallest normal 2^-14: units of 2^-24
    const float units = std::ldexp(std::bit_cast<float>(magnitude), 24);
    return {static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(units)))};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

void widen(float* to, const std::byte* from, DType dtype, int64_t n) {
  if (dtype == DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, from + 2 * i, sizeof bits);
    to[i] = dtype == DType::kBF16 ? to_float(BF16{bits}) : to_float(F16{bits});
  }
}

}  // namespace llm
