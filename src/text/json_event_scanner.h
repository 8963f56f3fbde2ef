// A fast reader of JSON texts that are mostly short strings and small numbers, as events.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/utf8.h"

namespace llm {

/// Calls a handler, made as nlohmann's json_sax, for what a text says. It reads valid JSON only,
/// but not all of it: scan() gives up, after some events, where the general parser is to have a
/// look.
template <typename Handler>
class JsonEventScanner {
 public:
  /// The text is well-formed UTF-8.
  JsonEventScanner(std::string_view text, Handler& handler)
      : at_(text.data()), end_(at_ + text.size()), handler_(handler) {}

  /// True if all of the text was read.
  bool scan() {
    if (!value()) return false;
    skip_blanks();
    return at_ == end_;
  }

 private:
  void skip_blanks() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }
  bool take(char c) {
    skip_blanks();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  /// The handler limits how deep this calls itself.
  bool value() {
    skip_blanks();
    if (at_ == end_) return false;
    switch (*at_) {
      case '"':
        return string() && handler_.string(string_);
      case '{':
        return object();
      case '[':
        return array();
      case 't':
        return take_word("true") && handler_.boolean(true);
      case 'f':
        return take_word("false") && handler_.boolean(false);
      case 'n':
        return take_word("null") && handler_.null();
      default:
        return integer();
    }
  }

  bool object() {
    ++at_;
    handler_.start_object(0);
    if (take('}')) return handler_.end_object();
    do {
      skip_blanks();
      if (!string() || !handler_.key(string_) || !take(':') || !value()) return false;
    } while (take(','));
    return take('}') && handler_.end_object();
  }

  bool array() {
    ++at_;
    handler_.start_array(0);
    if (take(']')) return handler_.end_array();
    do {
      if (!value()) return false;
    } while (take(','));
    return take(']') && handler_.end_array();
  }

  /// A whole number that isn't negative.
  bool integer() {
    constexpr ptrdiff_t kMaxDigits = 18;
    const char* const begin = at_;
    uint64_t number = 0;
    for (; at_ < end_ && *at_ >= '0' && *at_ <= '9'; ++at_) {
      number = number * 10 + static_cast<uint64_t>(*at_ - '0');
    }
    const ptrdiff_t num_digits = at_ - begin;
    if (num_digits == 0 || num_digits > kMaxDigits || (*begin == '0' && num_digits > 1))
      return false;
    if (at_ < end_ && (*at_ == '.' || *at_ == 'e' || *at_ == 'E')) return false;
    return handler_.number_unsigned(number);
  }

  /// Into string_.
  bool string() {
    if (at_ == end_ || *at_ != '"') return false;
    ++at_;
    string_.clear();
    while (true) {
      const char* const begin = at_;
      while (at_ < end_ && *at_ != '"' && *at_ != '\\' &&
             static_cast<unsigned char>(*at_) >= 0x20) {
        ++at_;
      }
      string_.append(begin, at_);
      if (at_ == end_) return false;
      const char stop = *at_++;
      if (stop == '"') return true;
      if (stop != '\\' || !escape()) return false;
    }
  }

  /// What stands behind a backslash. Halves of a pair are left to the general parser.
  bool escape() {
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    constexpr ptrdiff_t kNumDigits = 4;
    if (at_ == end_) return false;
    const char letter = *at_++;
    if (const size_t i = kLetters.find(letter); i != std::string_view::npos) {
      string_ += kMeanings[i];
      return true;
    }
    uint32_t code_point = 0;
    if (letter != 'u' || end_ - at_ < kNumDigits ||
        std::from_chars(at_, at_ + kNumDigits, code_point, 16).ptr != at_ + kNumDigits ||
        (code_point >= 0xd800 && code_point < 0xe000)) {
      return false;
    }
    append_utf8(string_, code_point);
    at_ += kNumDigits;
    return true;
  }

  const char* at_;
  const char* end_;
  Handler& handler_;
  std::string string_;
};

}  // namespace llm
