// Up to 16 bytes as two numbers, which compare and hash faster than a string.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace llm {

struct ShortBytes {
  static constexpr size_t kMaxLength = 16;

  uint64_t low = 0;   // bytes 0 to 7, zeros behind the last one
  uint64_t high = 0;  // bytes 8 to 15
  uint32_t length = 0;

  /// bytes.size() <= kMaxLength.
  static ShortBytes of(std::string_view bytes) {
    char padded[kMaxLength] = {};
    std::memcpy(padded, bytes.data(), bytes.size());
    return of_readable(padded, bytes.size());
  }

  /// `length` bytes at `begin`, where kMaxLength can be read.
  static ShortBytes of_readable(const char* begin, size_t length) {
    static constexpr unsigned char kMask[2 * kMaxLength] = {255, 255, 255, 255, 255, 255, 255, 255,
                                                            255, 255, 255, 255, 255, 255, 255, 255};
    ShortBytes bytes{0, 0, static_cast<uint32_t>(length)};
    uint64_t low_mask;
    uint64_t high_mask;
    std::memcpy(&bytes.low, begin, 8);
    std::memcpy(&bytes.high, begin + 8, 8);
    std::memcpy(&low_mask, kMask + kMaxLength - length, 8);
    std::memcpy(&high_mask, kMask + kMaxLength + 8 - length, 8);
    bytes.low &= low_mask;
    bytes.high &= high_mask;
    return bytes;
  }

  bool is_ascii() const { return ((low | high) & 0x8080808080808080) == 0; }

  /// A hash of `bits` bits, 1 to 32.
  size_t hash(int bits) const {
    constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd
    constexpr uint64_t kOther = 0xc2b2ae3d27d4eb4f;   // another odd number without a pattern
    const uint64_t mixed = low * kGolden ^ (std::rotl(high, 32) + length) * kOther;
    return static_cast<size_t>((mixed ^ mixed >> 29) * kGolden >> (64 - bits));
  }

  bool operator==(const ShortBytes&) const = default;
};

}  // namespace llm
