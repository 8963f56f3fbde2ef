#include "text/jinja_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "text/code_points.h"

namespace llm::jinja {

std::string describe(const Token& token) {
  switch (token.type) {
    case Token::Type::kData:
      return "template text";
    case Token::Type::kVariableBegin:
      return "'{{'";
    case Token::Type::kVariableEnd:
      return "'}}'";
    case Token::Type::kBlockBegin:
      return "'{%'";
    case Token::Type::kBlockEnd:
      return "'%}'";
    case Token::Type::kEnd:
      return "the end of the template";
    case Token::Type::kString:
      return "a string";
    default:
      return "'" + token.text + "'";
  }
}

void refuse_at(const std::string& origin, Position position, const std::string& problem) {
  refuse("{}: line {}, column {}: {}", origin, position.line, position.column, problem);
}

namespace {

using Type = Token::Type;
constexpr size_t kNowhere = std::string::npos;

/// \r\n and \r become \n; one newline at the end is dropped.
std::string normalize_newlines(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      result += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      result += source[i];
    }
  }
  if (!result.empty() && result.back() == '\n') result.pop_back();
  return result;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name_byte(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    const size_t last = previous_code_point(text, text.size());
    if (!is_python_space(code_point_at(text, last).value)) break;
    text = text.substr(0, last);
  }
  return text;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& origin)
      : origin_(origin), source_(normalize_newlines(source)) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) lex_data();
    push(Type::kEnd, "");
    return std::move(tokens_);
  }

 private:
  /// The tag that begins at or after `from`: its position, or kNowhere.
  size_t find_tag(size_t from) const {
    for (size_t at = source_.find('{', from); at != kNowhere; at = source_.find('{', at + 1)) {
      const char next = at + 1 < source_.size() ? source_[at + 1] : ' ';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return kNowhere;
  }

  /// Template text up to the next tag, then that tag.
  void lex_data() {
    const size_t begin = pos_;
    const size_t tag = find_tag(begin);
    const std::string_view text = view(begin, std::min(tag, source_.size()));
    if (tag == kNowhere) {
      push_data(text);
      move_to(source_.size());
      return;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    const bool has_sign = sign == '-' || sign == '+';
    push_data(strip_before_tag(text, has_sign ? sign : ' ', kind != '{'));
    move_to(tag);
    const size_t inside = tag + 2 + (has_sign ? 1 : 0);
    if (kind == '#') {
      lex_comment(inside);
    } else if (kind == '{') {
      push(Type::kVariableBegin, "{{");
      move_to(inside);
      lex_tag(Type::kVariableEnd);
    } else if (const size_t body = match_raw_begin(inside); body != kNowhere) {
      lex_raw(body);
    } else {
      push(Type::kBlockBegin, "{%");
      move_to(inside);
      lex_tag(Type::kBlockEnd);
    }
  }

  /// `-` strips all space before a tag; without a sign, blanks between the line's start and a block
  /// or comment go (lstrip_blocks).
  std::string_view strip_before_tag(std::string_view text, char sign, bool is_block) const {
    if (sign == '-') return strip_right(text);
    if (sign == '+' || !is_block) return text;
    const size_t newline = text.rfind('\n');
    const size_t line = newline == kNowhere ? 0 : newline + 1;
    if (line == 0 && !line_starting_) return text;
    const bool only_blanks = strip_right(text.substr(line)).empty();
    return only_blanks ? text.substr(0, line) : text;
  }

  /// Position after `{% raw %}` whose text after the sign starts at `at`, or kNowhere.
  size_t match_raw_begin(size_t at) const {
    at = skip_space_from(at);
    if (!source_view().substr(at).starts_with("raw")) return kNowhere;
    at = skip_space_from(at + 3);
    const std::string_view rest = source_view().substr(at);
    if (rest.starts_with("-%}")) return skip_space_from(at + 3);
    return rest.starts_with("%}") ? at + 2 : kNowhere;
  }

  void lex_raw(size_t body) {
    const Position start = position_;
    line_starting_ = source_[body - 1] == '\n';
    for (size_t tag = source_.find("{%", body); tag != kNowhere;
         tag = source_.find("{%", tag + 1)) {
      const char c = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
      const char sign = c == '-' || c == '+' ? c : ' ';
      size_t at = skip_space_from(tag + (sign == ' ' ? 2 : 3));
      if (!source_view().substr(at).starts_with("endraw")) continue;
      at = skip_space_from(at + 6);
      const size_t after = match_end(at, "%}", true);
      if (after == kNowhere) continue;
      push_data(strip_before_tag(view(body, tag), sign, true));
      move_to(after);
      return;
    }
    refuse_at(origin_, start, "Missing end of raw directive: no {% endraw %} follows");
  }

  /// Position after a closing `end` at `at` with its sign and the whitespace that belongs to it, or
  /// kNowhere. `trims`: a newline right after goes (trim_blocks), and `+` is allowed to keep it.
  size_t match_end(size_t at, std::string_view end, bool trims) const {
    const std::string_view rest = source_view().substr(at);
    if (rest.starts_with(end)) {
      const size_t after = at + end.size();
      return trims && after < source_.size() && source_[after] == '\n' ? after + 1 : after;
    }
    if (rest.size() <= end.size() || !rest.substr(1).starts_with(end)) return kNowhere;
    const size_t after = at + 1 + end.size();
    if (rest[0] == '-') return skip_space_from(after);
    return trims && rest[0] == '+' ? after : kNowhere;
  }

  void lex_comment(size_t at) {
    for (; at < source_.size(); ++at) {
      const size_t after = match_end(at, "#}", true);
      if (after != kNowhere) return move_to(after);
    }
    refuse_at(origin_, position_, "Missing end of comment tag: no #} follows");
  }

  /// The inside of `{{ }}` or `{% %}`, up to and with its end.
  void lex_tag(Type end_type) {
    const bool is_block = end_type == Type::kBlockEnd;
    const std::string_view end = is_block ? "%}" : "}}";
    brackets_.clear();
    while (pos_ < source_.size()) {
      if (brackets_.empty()) {
        const size_t after = match_end(pos_, end, is_block);
        if (after != kNowhere) {
          push(end_type, std::string(end));
          return move_to(after);
        }
      }
      lex_expression_token();
    }
  }

  void lex_expression_token() {
    const char c = source_[pos_];
    const size_t after_space = skip_space_from(pos_);
    if (after_space > pos_) {
      move_to(after_space);
    } else if (is_digit(c)) {
      lex_number();
    } else if (is_name_byte(c)) {
      lex_name();
    } else if (c == '\'' || c == '"') {
      lex_string(c);
    } else {
      lex_operator();
    }
  }

  void lex_name() {
    size_t end = pos_;
    while (end < source_.size() && is_name_byte(source_[end]) &&
           !is_python_space(code_point_at(source_, end).value)) {
      end += code_point_at(source_, end).length;
    }
    push(Type::kName, std::string(view(pos_, end)));
    move_to(end);
  }

  /// End of a run of digits with single underscores between them; `at` itself if there is none.
  template <typename IsDigit>
  size_t skip_digits(size_t at, const IsDigit& is_valid) const {
    size_t end = at;
    for (size_t i = at; i < source_.size(); ++i) {
      if (is_valid(source_[i])) {
        end = i + 1;
      } else if (source_[i] != '_' || i == at || source_[i - 1] == '_') {
        break;
      }
    }
    return end;
  }

  /// End of the float that starts here, or kNowhere.
  size_t match_float() const {
    if (pos_ > 0 && source_[pos_ - 1] == '.') return kNowhere;
    size_t end = skip_digits(pos_, is_digit);
    bool is_float = false;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      end = skip_digits(end + 1, is_digit);
      is_float = true;
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t digits = end + 1;
      if (digits < source_.size() && (source_[digits] == '+' || source_[digits] == '-')) ++digits;
      if (const size_t after = skip_digits(digits, is_digit); after > digits) return after;
    }
    return is_float ? end : kNowhere;
  }

  void lex_number() {
    const size_t float_end = match_float();
    if (float_end != kNowhere) {
      const std::string digits = without_underscores(view(pos_, float_end));
      return push_number(Value(std::strtod(digits.c_str(), nullptr)), float_end);
    }
    const char prefix =
        source_[pos_] == '0' && pos_ + 1 < source_.size() ? source_[pos_ + 1] | 0x20 : ' ';
    const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
    if (base != 10) return lex_based_integer(base);
    const bool is_zero = source_[pos_] == '0';
    const size_t end = skip_digits(pos_, [&](char c) { return is_zero ? c == '0' : is_digit(c); });
    const std::string digits = is_zero ? "0" : without_underscores(view(pos_, end));
    int64_t value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    push_number(result.ec == std::errc() ? Value(value) : Value::big_int(digits), end);
  }

  void lex_based_integer(int base) {
    const auto is_valid = [base](char c) {
      const int digit = is_digit(c) ? c - '0' : (c | 0x20) >= 'a' ? (c | 0x20) - 'a' + 10 : 99;
      return digit < base;
    };
    size_t begin = pos_ + 2;
    if (begin < source_.size() && source_[begin] == '_') ++begin;
    const size_t end = skip_digits(begin, is_valid);
    const std::string digits = without_underscores(view(begin, end));
    int64_t value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (result.ec != std::errc()) refuse_at(origin_, position_, "this number can't be read");
    push_number(Value(value), end);
  }

  void push_number(Value value, size_t end) {
    push(Type::kNumber, std::string(view(pos_, end)));
    tokens_.back().value = std::move(value);
    move_to(end);
  }

  static std::string without_underscores(std::string_view text) {
    std::string result(text);
    std::erase(result, '_');
    return result;
  }

  void lex_string(char quote) {
    size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) {
      refuse_at(origin_, position_,
                fmt::format("unexpected char {}: the string never ends",
                            quote == '"' ? "'\"'" : "\"'\""));
    }
    push(Type::kString, unescape(view(pos_ + 1, end)));
    move_to(end + 1);
  }

  std::string unescape(std::string_view literal) const {
    std::string out;
    for (size_t i = 0; i < literal.size();) {
      if (literal[i] != '\\') {
        out += literal[i++];
        continue;
      }
      i = unescape_one(literal, i + 1, out);
    }
    return out;
  }

  /// The escape whose letter is literal[at], as in Python's string literals; returns the position
  /// after it.
  size_t unescape_one(std::string_view literal, size_t at, std::string& out) const {
    constexpr std::string_view kNames = "\\'\"abfnrtv";
    constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    const char c = literal[at];
    if (c == '\n') return at + 1;
    if (const size_t which = kNames.find(c); which != kNowhere) {
      out += kMeanings[which];
      return at + 1;
    }
    if (c >= '0' && c <= '7') {
      size_t end = at;
      while (end < literal.size() && end < at + 3 && literal[end] >= '0' && literal[end] <= '7')
        ++end;
      append_utf8(out, static_cast<char32_t>(parse_digits(literal.substr(at, end - at), 8)));
      return end;
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      out += '\\';
      return at;
    }
    const std::string_view hex = literal.substr(at + 1, digits);
    const int64_t value = parse_digits(hex, 16);
    const bool is_scalar = value >= 0 && value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
    if (hex.size() < digits || !is_scalar) {
      refuse_at(origin_, position_,
                fmt::format("the escape \\{}{} in this string is no character", c, hex));
    }
    append_utf8(out, static_cast<char32_t>(value));
    return at + 1 + digits;
  }

  static int64_t parse_digits(std::string_view digits, int base) {
    int64_t value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    return result.ptr == digits.data() + digits.size() ? value : -1;
  }

  void lex_operator() {
    static constexpr std::array<std::string_view, 26> kOperators = {
        "**", "//", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const std::string_view rest = source_view().substr(pos_);
    for (const std::string_view op : kOperators) {
      if (!rest.starts_with(op)) continue;
      balance(op[0]);
      push(Type::kOperator, std::string(op));
      return move_to(pos_ + op.size());
    }
    const size_t length = code_point_at(source_, pos_).length;
    refuse_at(origin_, position_, fmt::format("unexpected char '{}'", rest.substr(0, length)));
  }

  void balance(char c) {
    if (c == '(') brackets_ += ')';
    if (c == '[') brackets_ += ']';
    if (c == '{') brackets_ += '}';
    if (c != ')' && c != ']' && c != '}') return;
    if (brackets_.empty()) refuse_at(origin_, position_, fmt::format("unexpected '{}'", c));
    if (brackets_.back() != c) {
      refuse_at(origin_, position_,
                fmt::format("unexpected '{}', expected '{}'", c, brackets_.back()));
    }
    brackets_.pop_back();
  }

  void push(Type type, std::string text) {
    tokens_.push_back({type, std::move(text), Value(), position_});
  }

  void push_data(std::string_view text) {
    if (!text.empty()) push(Type::kData, std::string(text));
  }

  /// Goes on at `to`, keeping count of lines and columns.
  void move_to(size_t to) {
    for (size_t i = pos_; i < to; ++i) {
      if (source_[i] == '\n') {
        ++position_.line;
        position_.column = 1;
      } else if ((static_cast<unsigned char>(source_[i]) & 0xC0) != 0x80) {
        ++position_.column;
      }
    }
    if (to > pos_) line_starting_ = source_[to - 1] == '\n';
    pos_ = to;
  }

  size_t skip_space_from(size_t at) const {
    while (at < source_.size()) {
      const CodePoint c = code_point_at(source_, at);
      if (!is_python_space(c.value)) break;
      at += c.length;
    }
    return at;
  }

  std::string_view source_view() const { return source_; }
  std::string_view view(size_t begin, size_t end) const {
    return source_view().substr(begin, end - begin);
  }

  const std::string& origin_;
  std::string source_;
  size_t pos_ = 0;
  Position position_;
  bool line_starting_ = true;  // what was read last ended with a newline
  std::string brackets_;       // closing brackets that are due
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, const std::string& origin) {
  const size_t bad = find_ill_formed(source);
  if (bad != std::string_view::npos) {
    refuse("{}: the template is not UTF-8 (byte {})", origin, bad);
  }
  return Lexer(source, origin).run();
}

}  // namespace llm::jinja
