// UTF-8: reading, checking and repairing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace llm {

inline constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";  // U+FFFD

/// What stands at the beginning of a text.
struct Utf8Part {
  enum class Kind {
    kCharacter,   // a well-formed sequence
    kIllFormed,   // a maximal ill-formed part, which stands for one U+FFFD
    kIncomplete,  // the text ends inside a sequence that is well-formed so far
  };
  Kind kind;
  size_t length;  // bytes, 1 to 4
};

/// The first part of a non-empty text. "Maximal part" as in the Unicode standard, section 3.9: the
/// longest prefix of some well-formed sequence, or one byte that begins none.
Utf8Part first_utf8_part(std::string_view text);

/// True if all of it is well-formed: no surrogates, no overlong forms, nothing above U+10FFFF.
bool is_valid_utf8(std::string_view text);

/// The text with each maximal ill-formed part (also an incomplete one at the end) as one U+FFFD.
/// `replaced`, if given, tells whether there was any.
std::string replace_invalid_utf8(std::string_view text, bool* replaced = nullptr);

/// Appends one code point (a Unicode scalar value).
void append_utf8(std::string& out, char32_t code_point);

struct CodePoint {
  char32_t value;
  uint32_t length;  // bytes
};

/// The code point at text[position]. The text must be well-formed and position a character's first
/// byte: nothing is checked.
inline CodePoint code_point_at(std::string_view text, size_t position) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xe0) return {(lead & 0x1f) << 6 | (byte(1) & 0x3fu), 2};
  if (lead < 0xf0) return {(lead & 0x0f) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu), 3};
  return {
      (lead & 0x07) << 18 | (byte(1) & 0x3fu) << 12 | (byte(2) & 0x3fu) << 6 | (byte(3) & 0x3fu),
      4};
}

}  // namespace llm
