#include "text/character_borders.h"

#include <algorithm>

namespace llm {
namespace {

bool is_ascii(char byte) { return static_cast<unsigned char>(byte) < 0x80; }
bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

/// The code point at the beginning of a text, or -1 if it isn't whole.
int32_t first_character(std::string_view text) {
  if (first_utf8_part(text).kind != Utf8Part::Kind::kCharacter) return -1;
  return static_cast<int32_t>(code_point_at(text, 0).value);
}

/// The code point that ends at the end of a text, or -1 if it isn't whole.
int32_t last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && is_continuation(text[begin])) --begin;
  const std::string_view last = text.substr(begin);
  return first_utf8_part(last).length == last.size() ? first_character(last) : -1;
}

}  // namespace

CharacterBorders::CharacterBorders(const Vocabulary& vocabulary) {
  for (int32_t id = 0; id < vocabulary.num_ids(); ++id) {
    const std::string_view token = vocabulary.bytes_of(id);
    if (!std::all_of(token.begin(), token.end(), is_ascii)) add(token);
  }
}

void CharacterBorders::add(std::string_view token) {
  for (size_t i = 1; i < token.size(); ++i) {
    if (is_continuation(token[i])) continue;
    const int32_t left = last_character(token.substr(0, i));
    const int32_t right = first_character(token.substr(i));
    if (left < 0 || right < 0) {
      const auto bit = static_cast<unsigned char>(token[i]);
      parts_[static_cast<unsigned char>(token[i - 1])][bit / 64] |= uint64_t{1} << bit % 64;
      part_pairs_.add(left < 0 ? part(token[i - 1]) : static_cast<char32_t>(left),
                      right < 0 ? part(token[i]) : static_cast<char32_t>(right));
    } else if (left >= 0x80 && right >= 0x80) {
      pairs_.add(static_cast<char32_t>(left), static_cast<char32_t>(right));
    }
  }
}

}  // namespace llm
