#include "text/pretokenizer.h"

#include <array>

#include "text/unicode.h"
#include "text/utf8.h"

namespace llm {
namespace {

// Qwen2, Qwen2.5 and Qwen3.
constexpr std::string_view kQwenPattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]"
    "*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

struct Char {
  CharClass char_class;
  size_t length;  // bytes
};

Char char_at(std::string_view text, size_t position) {
  const CodePoint c = code_point_at(text, position);
  return {char_class(c.value), c.length};
}

/// The end of the run of characters of this class that begins at `begin`.
size_t end_of_run(std::string_view text, size_t begin, CharClass wanted) {
  while (begin < text.size()) {
    const Char c = char_at(text, begin);
    if (c.char_class != wanted) break;
    begin += c.length;
  }
  return begin;
}

bool is_line_break(char c) { return c == '\r' || c == '\n'; }

size_t end_of_line_breaks(std::string_view text, size_t begin) {
  while (begin < text.size() && is_line_break(text[begin])) ++begin;
  return begin;
}

enum class Case { kSensitive, kInsensitive };

/// Length of 's 't 're 've 'm 'll or 'd at the beginning of the text, 0 if there is none.
size_t contraction(std::string_view text, Case letter_case) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  const bool fold = letter_case == Case::kInsensitive;
  const auto letter = [&](size_t i) {
    const char c = i < text.size() ? text[i] : '\0';
    return fold && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return letter(2) == 'e' ? 3 : 0;
    case 'l':
      return letter(2) == 'l' ? 3 : 0;
    default:
      // U+017F, the long s, is an s where case doesn't matter.
      return fold && text.substr(1, 2) == "\xc5\xbf" ? 3 : 0;
  }
}

/// The alternatives \s+(?!\S)|\s+ on a text that begins with a run of white space: all of it at the
/// text's end, else all but its last character, which goes with what follows; never nothing.
size_t white_space(std::string_view text) {
  size_t last = 0;
  size_t end = 0;
  while (end < text.size()) {
    const Char c = char_at(text, end);
    if (c.char_class != CharClass::kSpace) break;
    last = end;
    end += c.length;
  }
  return end == text.size() || last == 0 ? end : last;
}

/// Like white_space(), but \s*[\r\n]+ comes first: up to the run's last line break if it has one.
size_t white_space_or_lines(std::string_view text) {
  const size_t run = end_of_run(text, 0, CharClass::kSpace);
  for (size_t end = run; end > 0; --end) {
    if (is_line_break(text[end - 1])) return end;
  }
  return white_space(text);
}

/// A number to "Digits", which the reference asks of another library than its patterns, with
/// Unicode 17: the numbers of 16, and Tolong Siki digits and signs for Chinese small numbers.
bool is_numeric(char32_t c) {
  return char_class(c) == CharClass::kNumber || (c >= 0x11de0 && c <= 0x11de9) ||
         (c >= 0x16ff4 && c <= 0x16ff6);
}

/// See kQwenPattern, whose alternatives are tried in order.
size_t scan_qwen(std::string_view text) {
  if (const size_t length = contraction(text, Case::kInsensitive)) return length;
  const Char first = char_at(text, 0);
  if (first.char_class == CharClass::kLetter) {
    return end_of_run(text, first.length, CharClass::kLetter);
  }
  if (first.char_class == CharClass::kNumber) return first.length;

  // Any one character but a line break may lead a word; only a space may lead symbols.
  if (first.length < text.size()) {
    const Char second = char_at(text, first.length);
    const size_t rest = first.length + second.length;
    if (second.char_class == CharClass::kLetter && !is_line_break(text[0])) {
      return end_of_run(text, rest, CharClass::kLetter);
    }
    if (second.char_class == CharClass::kOther && text[0] == ' ') {
      return end_of_line_breaks(text, end_of_run(text, rest, CharClass::kOther));
    }
  }
  if (first.char_class == CharClass::kOther) {
    return end_of_line_breaks(text, end_of_run(text, first.length, CharClass::kOther));
  }
  return white_space_or_lines(text);
}

}  // namespace

Scanner scanner_for_pattern(std::string_view regex) {
  struct Known {
    std::string_view regex;
    Scanner scanner;
  };
  constexpr std::array kKnown = {Known{kQwenPattern, scan_qwen}};
  for (const Known& known : kKnown) {
    if (known.regex == regex) return known.scanner;
  }
  return nullptr;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t scan_gpt2(std::string_view text) {
  if (const size_t length = contraction(text, Case::kSensitive)) return length;
  const size_t begin = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const Char c = char_at(text, begin);
  if (c.char_class == CharClass::kSpace) return white_space(text);
  return end_of_run(text, begin + c.length, c.char_class);
}

size_t scan_digits(std::string_view text) {
  return is_numeric(code_point_at(text, 0).value) ? code_point_at(text, 0).length
                                                  : scan_digit_runs(text);
}

size_t scan_digit_runs(std::string_view text) {
  const CodePoint first = code_point_at(text, 0);
  const bool numeric = is_numeric(first.value);
  size_t end = first.length;
  while (end < text.size()) {
    const CodePoint c = code_point_at(text, end);
    if (is_numeric(c.value) != numeric) break;
    end += c.length;
  }
  return end;
}

}  // namespace llm
