// The JSON reader: RFC 8259 texts with Python's treatment of numbers and repeated keys.
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "text/code_points.h"
#include "text/value.h"

namespace llm {

namespace {

class JsonReader {
 public:
  JsonReader(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {}

  Value read() {
    const size_t bad = find_ill_formed(text_);
    if (bad != std::string_view::npos) {
      pos_ = bad;
      stop("the bytes here are not UTF-8");
    }
    if (text_.starts_with("\xEF\xBB\xBF")) pos_ = 3;  // byte order mark
    skip_space();
    Value value = read_value(0);
    skip_space();
    if (pos_ < text_.size()) stop("text after the end of the JSON value");
    return value;
  }

 private:
  [[noreturn]] void stop(const std::string& problem) const {
    const std::string_view before = text_.substr(0, pos_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t line_start = before.rfind('\n') + 1;  // 0 when there is none
    const size_t column = 1 + count_code_points(before.substr(line_start));
    refuse("{}: line {}, column {}: {}", origin_, line, column, problem);
  }

  bool at(char c) const { return pos_ < text_.size() && text_[pos_] == c; }

  void skip_space() {
    while (pos_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[pos_]) != std::string_view::npos) {
      ++pos_;
    }
  }

  bool take(char c) {
    if (!at(c)) return false;
    ++pos_;
    return true;
  }

  bool take_word(std::string_view word) {
    if (!text_.substr(pos_).starts_with(word)) return false;
    pos_ += word.size();
    return true;
  }

  Value read_value(int depth) {
    if (depth > kMaxValueDepth - 10) stop("values are nested too deeply");
    if (pos_ >= text_.size()) stop("the JSON ends where a value is expected");
    switch (text_[pos_]) {
      case '{':
        return read_object(depth);
      case '[':
        return read_array(depth);
      case '"':
        return Value(read_string());
      default:
        break;
    }
    if (take_word("null")) return Value::none();
    if (take_word("true")) return Value(true);
    if (take_word("false")) return Value(false);
    return read_number();
  }

  Value read_array(int depth) {
    ++pos_;
    std::vector<Value> items;
    skip_space();
    if (take(']')) return Value::list({});
    while (true) {
      skip_space();
      items.push_back(read_value(depth + 1));
      if (items.size() > kMaxListItems) stop("the list is too long");
      skip_space();
      if (take(']')) return Value::list(std::move(items));
      if (!take(',')) stop("expected ',' or ']' in a list");
    }
  }

  Value read_object(int depth) {
    ++pos_;
    Dict dict;
    skip_space();
    if (take('}')) return Value(std::move(dict));
    while (true) {
      skip_space();
      if (!at('"')) stop("expected a key in double quotes");
      const Value key(read_string());
      skip_space();
      if (!take(':')) stop("expected ':' after a key");
      skip_space();
      dict.set(key, read_value(depth + 1));
      skip_space();
      if (take('}')) return Value(std::move(dict));
      if (!take(',')) stop("expected ',' or '}' in an object");
    }
  }

  Value read_number() {
    const size_t start = pos_;
    take('-');
    const auto digits = [&] {
      const size_t first = pos_;
      while (pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '9') ++pos_;
      return pos_ - first;
    };
    const bool leading_zero = at('0');
    const size_t whole = digits();
    if (whole == 0) {
      pos_ = start;
      stop("expected a value (object, list, string, number, true, false or null)");
    }
    if (leading_zero && whole > 1) stop("a number must not start with 0");
    bool is_float = false;
    if (take('.')) {
      is_float = true;
      if (digits() == 0) stop("expected digits after the decimal point");
    }
    if (take('e') || take('E')) {
      is_float = true;
      if (!take('+')) take('-');
      if (digits() == 0) stop("expected digits in the exponent");
    }
    const std::string number(text_.substr(start, pos_ - start));
    if (is_float) return Value(std::strtod(number.c_str(), nullptr));
    int64_t value = 0;
    const auto result = std::from_chars(number.data(), number.data() + number.size(), value);
    return result.ec == std::errc() ? Value(value) : Value::big_int(number);
  }

  unsigned read_hex4() {
    unsigned value = 0;
    const std::string_view digits = text_.substr(pos_, 4);
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() < 4 || result.ptr != digits.data() + 4) {
      stop("expected four hexadecimal digits after \\u");
    }
    pos_ += 4;
    return value;
  }

  void read_unicode_escape(std::string& out) {
    const unsigned first = read_hex4();
    if (first >= 0xD800 && first <= 0xDBFF && take_word("\\u")) {
      const unsigned second = read_hex4();
      if (second >= 0xDC00 && second <= 0xDFFF) {
        return append_utf8(out, 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00));
      }
      stop("half a surrogate pair is no character");
    }
    if (first >= 0xD800 && first <= 0xDFFF) stop("half a surrogate pair is no character");
    append_utf8(out, first);
  }

  void read_escape(std::string& out) {
    if (pos_ >= text_.size()) stop("the JSON ends inside a string");
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const size_t which = kNames.find(text_[pos_]);
    if (which != std::string_view::npos) {
      ++pos_;
      out += kMeanings[which];
    } else if (take('u')) {
      read_unicode_escape(out);
    } else {
      stop("unknown escape in a string");
    }
  }

  std::string read_string() {
    ++pos_;
    std::string out;
    while (true) {
      const size_t plain = pos_;
      while (pos_ < text_.size() && static_cast<unsigned char>(text_[pos_]) >= 0x20 &&
             text_[pos_] != '"' && text_[pos_] != '\\') {
        ++pos_;
      }
      out.append(text_.substr(plain, pos_ - plain));
      if (pos_ >= text_.size()) stop("the JSON ends inside a string");
      if (take('"')) break;
      if (!take('\\')) stop("a control character inside a string must be escaped");
      read_escape(out);
    }
    if (out.size() > kMaxTextBytes) stop("the string is too long");
    return out;
  }

  std::string_view text_;
  const std::string& origin_;
  size_t pos_ = 0;
};

}  // namespace

Value parse_json_value(std::string_view text, const std::string& origin) {
  return JsonReader(text, origin).read();
}

}  // namespace llm
