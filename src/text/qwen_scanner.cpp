#include "text/qwen_scanner.h"

#include "text/char_scan.h"

namespace llm {
namespace {

bool is_line_break(char c) { return c == '\r' || c == '\n'; }

size_t end_of_line_breaks(std::string_view text, size_t begin) {
  while (begin < text.size() && is_line_break(text[begin])) ++begin;
  return begin;
}

/// The alternatives \s*[\r\n]+|\s+(?!\S)|\s+ on a text that begins with white space: up to the last
/// line break of the run; without one, all of it at the text's end, else all but the last
/// character, which goes with what follows; never nothing.
size_t white_space(std::string_view text) {
  size_t after_break = 0;
  size_t last = 0;
  size_t end = 0;
  while (end < text.size()) {
    const Char c = char_at(text, end);
    if (c.char_class != CharClass::kSpace) break;
    last = end;
    end += c.length;
    if (is_line_break(text[last])) after_break = end;
  }
  if (after_break > 0) return after_break;
  return end == text.size() || last == 0 ? end : last;
}

}  // namespace

size_t qwen_scanner::contraction(std::string_view text) {
  const auto letter = [&](size_t i) {
    const char c = i < text.size() ? text[i] : '\0';
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
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
      return text.substr(1, 2) == "\xc5\xbf" ? 3 : 0;
  }
}

size_t end_of_letters(std::string_view text, size_t begin) {
  constexpr size_t kStep = 8;
  while (begin + kStep <= text.size()) {
    const size_t letters = qwen_scanner::letters_of_eight(text.data() + begin);
    begin += letters;
    if (letters == kStep) continue;
    if (static_cast<unsigned char>(text[begin]) < 0x80) return begin;
    // Scripts don't change from one letter to the next.
    do {
      const Char c = char_at(text, begin);
      if (c.char_class != CharClass::kLetter) return begin;
      begin += c.length;
    } while (begin < text.size() && static_cast<unsigned char>(text[begin]) >= 0x80);
  }
  return end_of_run(text, begin, CharClass::kLetter);
}

/// See kQwenPattern, whose alternatives are tried in order.
size_t scan_qwen(std::string_view text) {
  if (text[0] == '\'') {
    if (const size_t length = qwen_scanner::contraction(text)) return length;
  }
  const Char first = char_at(text, 0);
  if (first.char_class == CharClass::kLetter) return end_of_letters(text, first.length);
  if (first.char_class == CharClass::kNumber) return first.length;

  // Any one character but a line break may lead a word; only a space may lead symbols.
  if (first.length < text.size()) {
    const Char second = char_at(text, first.length);
    const size_t rest = first.length + second.length;
    if (second.char_class == CharClass::kLetter && !is_line_break(text[0])) {
      return end_of_letters(text, rest);
    }
    if (second.char_class == CharClass::kOther && text[0] == ' ') {
      return end_of_line_breaks(text, end_of_run(text, rest, CharClass::kOther));
    }
  }
  if (first.char_class == CharClass::kOther) {
    return end_of_line_breaks(text, end_of_run(text, first.length, CharClass::kOther));
  }
  return white_space(text);
}

}  // namespace llm
