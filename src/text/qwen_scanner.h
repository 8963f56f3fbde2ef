// Qwen's split pattern (Qwen2, Qwen2.5 and Qwen3), matched by hand.
#pragma once

#include <array>
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

inline constexpr uint8_t kLetter = 1;
inline constexpr uint8_t kMayLead = 2;  // a word, and is nothing else before one
inline constexpr uint8_t kDigit = 4;

/// What an ASCII byte is at the beginning of a piece; 0 for all that takes a closer look.
inline constexpr std::array<uint8_t, 256> kRoles = [] {
  std::array<uint8_t, 256> roles{};
  for (int c = 0; c < 0x80; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    if (letter) roles[c] = kLetter;
    if (digit) roles[c] = kDigit;
    if (!letter && !digit && c != '\r' && c != '\n' && c != '\'') roles[c] = kMayLead;
  }
  return roles;
}();

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

}  // namespace qwen_scanner

/// The same as scan_qwen(), in a few steps for the most frequent piece: an ASCII word, alone or
/// after a space or symbol.
inline size_t scan_qwen_inline(std::string_view text) {
  using namespace qwen_scanner;
  constexpr size_t kReadAhead = 9;  // a leading character and eight letters
  if (text.size() <= kReadAhead) return scan_qwen(text);
  const uint8_t first = kRoles[static_cast<unsigned char>(text[0])];
  const uint8_t second = kRoles[static_cast<unsigned char>(text[1])];
  const size_t lead = first == kLetter ? 0 : 1;
  if (first != kLetter && (first != kMayLead || second != kLetter)) {
    return first == kDigit ? 1 : scan_qwen(text);
  }
  const size_t end = lead + letters_of_eight(text.data() + lead);
  const bool ends_here = end < lead + 8 && static_cast<unsigned char>(text[end]) < 0x80;
  return ends_here ? end : end_of_letters(text, end);
}

}  // namespace llm
