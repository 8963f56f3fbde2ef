// Qwen's split pattern (Qwen2, Qwen2.5 and Qwen3), matched by hand.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace llm {

inline constexpr std::string_view kQwenPattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]"
    "*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/// Bytes of the first piece of a non-empty text (well-formed UTF-8).
size_t scan_qwen(std::string_view text);

/// From `begin` on, where the run of letters that is there ends.
size_t end_of_letters(std::string_view text, size_t begin);

namespace qwen_scanner {

/// How many of the eight bytes at `text` are ASCII letters before the first that isn't.
inline size_t letters_of_eight(const char* text) {
  constexpr uint64_t kEach = 0x0101010101010101;
  uint64_t bytes;
  std::memcpy(&bytes, text, 8);
  const uint64_t lower = (bytes & 0x7f * kEach) | 0x20 * kEach;
  // In each byte, the top bit says: at least 'a', more than 'z', beyond ASCII.
  const uint64_t from_a = lower + (0x80 - 'a') * kEach;
  const uint64_t after_z = lower + (0x80 - 'z' - 1) * kEach;
  const uint64_t others = ~(from_a & ~after_z & ~bytes) & 0x80 * kEach;
  static_assert(std::endian::native == std::endian::little);
  return static_cast<size_t>(std::countr_zero(others)) / 8;
}

/// Length of 's 't 're 've 'm 'll or 'd in any case at the beginning of a text that begins with an
/// apostrophe, 0 if there is none.
size_t contraction(std::string_view text);

}  // namespace qwen_scanner

}  // namespace llm
