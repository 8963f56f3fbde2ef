// Element types of tensors, and 16-bit floating point on the host.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace llm {

/// Element types of the safetensors format (huggingface/safetensors, `Dtype`), in its spelling.
enum class DType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3FNUZ,
  kF8E5M2FNUZ,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64,
  kC64,
  kF4,
  kF6E2M3,
  kF6E3M2,
};

/// Size of one element in bits.
int bits_of(DType dtype);

/// The name used in safetensors headers ("BF16").
std::string_view name_of(DType dtype);

/// The dtype with this safetensors name, or nothing.
std::optional<DType> dtype_from_name(std::string_view name);

/// BF16: the upper half of an IEEE-754 binary32.
struct BF16 {
  uint16_t bits = 0;
};

/// IEEE-754 binary16.
struct F16 {
  uint16_t bits = 0;
};

inline float to_float(BF16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

/// Rounds to nearest, ties to even; NaN stays a (quiet) NaN.
inline BF16 to_bf16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40)};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1)) >> 16)};
}

/// FP8 with 4 exponent and 3 mantissa bits, no infinities (OCP 8-bit Floating Point, "E4M3").
struct F8E4M3 {
  uint8_t bits = 0;
};

/// The largest of them.
inline constexpr float kMaxF8E4M3 = 448.0f;

/// Rounds to nearest, ties to even; what is larger than kMaxF8E4M3 becomes that, NaN stays NaN.
F8E4M3 to_f8e4m3(float x);

float to_float(F8E4M3 x);

float to_float(F16 x);

/// Rounds to nearest, ties to even; overflow becomes infinity.
F16 to_f16(float x);

/// Widens n values of F32, F16 or BF16, which may lie at any address.
void widen(float* to, const std::byte* from, DType dtype, int64_t n);

}  // namespace llm
