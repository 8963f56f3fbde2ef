// Characters of a text with their classes, one after the other: what hand-written splitters are
// made of.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "text/unicode.h"
#include "text/utf8.h"

namespace llm {

struct Char {
  CharClass char_class;
  size_t length;  // bytes
};

inline constexpr std::array<CharClass, 128> kAsciiClasses = [] {
  std::array<CharClass, 128> classes{};
  for (int c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter) classes[c] = CharClass::kLetter;
    if (c >= '0' && c <= '9') classes[c] = CharClass::kNumber;
    if (c == ' ' || (c >= '\t' && c <= '\r')) classes[c] = CharClass::kSpace;
  }
  return classes;
}();

/// position < text.size(), at the beginning of a character.
inline Char char_at(std::string_view text, size_t position) {
  const auto byte = static_cast<unsigned char>(text[position]);
  if (byte < 0x80) return {kAsciiClasses[byte], 1};
  const CodePoint c = code_point_at(text, position);
  return {char_class(c.value), c.length};
}

/// The end of the run of characters of this class that begins at `begin`.
inline size_t end_of_run(std::string_view text, size_t begin, CharClass wanted) {
  while (begin < text.size()) {
    const Char c = char_at(text, begin);
    if (c.char_class != wanted) break;
    begin += c.length;
  }
  return begin;
}

}  // namespace llm
