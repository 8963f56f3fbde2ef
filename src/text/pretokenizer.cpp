#include "text/pretokenizer.h"

#include <array>

#include "text/char_scan.h"
#include "text/qwen_scanner.h"

namespace llm {
namespace {

/// Length of 's 't 're 've 'm 'll or 'd at the beginning of the text, 0 if there is none.
size_t contraction(std::string_view text) {
  for (const std::string_view known : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(known)) return known.size();
  }
  return 0;
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

/// A number to "Digits", which the reference asks of another library than its patterns, with
/// Unicode 17: the numbers of 16, and Tolong Siki digits and signs for Chinese small numbers.
bool is_numeric(char32_t c) {
  return char_class(c) == CharClass::kNumber || (c >= 0x11de0 && c <= 0x11de9) ||
         (c >= 0x16ff4 && c <= 0x16ff6);
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
  if (const size_t length = contraction(text)) return length;
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
