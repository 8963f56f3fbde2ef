#include "text/code_points.h"

#include "text/unicode.h"

namespace llm {

namespace {

bool in(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

/// Blocks where capital and small letters alternate, the capital on even code points.
bool alternates_even(char32_t c) {
  return in(c, 0x100, 0x12F) || in(c, 0x132, 0x137) || in(c, 0x14A, 0x177) || in(c, 0x1DE, 0x1EF) ||
         in(c, 0x1F8, 0x21F) || in(c, 0x222, 0x233) || in(c, 0x3D8, 0x3EF) || in(c, 0x460, 0x481) ||
         in(c, 0x48A, 0x4BF) || in(c, 0x4D0, 0x52F) || in(c, 0x1E00, 0x1E95) ||
         in(c, 0x1EA0, 0x1EFF);
}

/// The same with the capital on odd code points.
bool alternates_odd(char32_t c) {
  return in(c, 0x139, 0x148) || in(c, 0x179, 0x17E) || in(c, 0x1CD, 0x1DC) || in(c, 0x4C1, 0x4CE);
}

}  // namespace

size_t previous_code_point(std::string_view text, size_t pos) {
  const auto is_continuation = [&](size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
  };
  size_t start = pos - 1;
  while (start > 0 && is_continuation(start)) --start;
  return start;
}

size_t count_code_points(std::string_view text) {
  size_t count = 0;
  for (size_t pos = 0; pos < text.size(); pos += code_point_at(text, pos).length) ++count;
  return count;
}

size_t find_ill_formed(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Part part = first_utf8_part(text.substr(pos));
    if (part.kind != Utf8Part::Kind::kCharacter) return pos;
    pos += part.length;
  }
  return std::string_view::npos;
}

bool is_python_space(char32_t c) {
  return in(c, 0x09, 0x0D) || in(c, 0x1C, 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         in(c, 0x2000, 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_python_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  if (is_python_space(c)) return false;
  const bool hidden =
      in(c, 0x7F, 0x9F) || c == 0xAD || in(c, 0x600, 0x605) || c == 0x61C || c == 0x6DD ||
      c == 0x70F || c == 0x8E2 || c == 0x180E || in(c, 0x200B, 0x200F) || in(c, 0x2028, 0x202E) ||
      in(c, 0x2060, 0x206F) || in(c, 0xD800, 0xF8FF) || c == 0xFEFF || in(c, 0xFFF0, 0xFFFB) ||
      (c & 0xFFFE) == 0xFFFE || in(c, 0x1D173, 0x1D17A) || in(c, 0xE0000, 0xE00FF) || c >= 0xE01F0;
  return !hidden;
}

char32_t to_upper(char32_t c) {
  if (c < 0x80) return in(c, 'a', 'z') ? c - 32 : c;
  if (c == 0xB5) return 0x39C;
  if (in(c, 0xE0, 0xFE) && c != 0xF7) return c - 32;
  if (c == 0xFF) return 0x178;
  if (c == 0x131) return 'I';
  if (alternates_even(c)) return c & ~char32_t{1};
  if (alternates_odd(c)) return c % 2 == 0 ? c - 1 : c;
  if (c == 0x3C2) return 0x3A3;
  if (in(c, 0x3B1, 0x3CB)) return c - 32;
  if (c == 0x3AC) return 0x386;
  if (in(c, 0x3AD, 0x3AF)) return c - 37;
  if (c == 0x3CC) return 0x38C;
  if (in(c, 0x3CD, 0x3CE)) return c - 63;
  if (in(c, 0x430, 0x44F)) return c - 32;
  if (in(c, 0x450, 0x45F)) return c - 80;
  if (in(c, 0x561, 0x586)) return c - 48;
  return c;
}

char32_t to_lower(char32_t c) {
  if (c < 0x80) return in(c, 'A', 'Z') ? c + 32 : c;
  if (in(c, 0xC0, 0xDE) && c != 0xD7) return c + 32;
  if (c == 0x178) return 0xFF;
  if (alternates_even(c)) return c | 1;
  if (alternates_odd(c)) return c % 2 == 1 ? c + 1 : c;
  if (in(c, 0x391, 0x3AB) && c != 0x3A2) return c + 32;
  if (c == 0x386) return 0x3AC;
  if (in(c, 0x388, 0x38A)) return c + 37;
  if (c == 0x38C) return 0x3CC;
  if (in(c, 0x38E, 0x38F)) return c + 63;
  if (in(c, 0x410, 0x42F)) return c + 32;
  if (in(c, 0x400, 0x40F)) return c + 80;
  if (in(c, 0x531, 0x556)) return c + 48;
  return c;
}

bool is_alphabetic(char32_t c) { return char_class(c) == CharClass::kLetter; }

bool is_alphanumeric(char32_t c) {
  return char_class(c) == CharClass::kLetter || char_class(c) == CharClass::kNumber;
}

bool is_cased(char32_t c) { return to_upper(c) != c || to_lower(c) != c || c == 0xDF; }

}  // namespace llm
