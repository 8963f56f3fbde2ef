#include "text/split_pattern_parser.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "text/utf8.h"

namespace llm {
namespace {

using Node = SplitPatternNode;

constexpr size_t kUnbounded = Node::kUnbounded;
constexpr size_t kMaxCount = 1000;
constexpr int kMaxDepth = 32;
constexpr char32_t kLastCodePoint = 0x10ffff;

bool is_ascii_letter(char32_t c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

/// Adds an ASCII character and what equals it where case doesn't matter.
void add_folded(CharSet& set, char32_t c) {
  set.add(c, c);
  if (!is_ascii_letter(c)) return;
  set.add(c ^ 0x20, c ^ 0x20);
  const char32_t small = c | 0x20;
  if (small == 's') set.add(0x17f, 0x17f);    // long s
  if (small == 'k') set.add(0x212a, 0x212a);  // Kelvin sign
}

class Parser {
 public:
  explicit Parser(std::string_view regex) : regex_(regex) {
    if (!is_valid_utf8(regex)) refuse("it isn't valid UTF-8");
  }

  Node parse() {
    Node node = alternatives();
    if (!at_end()) refuse("')' without '('");
    return node;
  }

 private:
  // ---- Characters of the pattern ----

  bool at_end() const { return at_ == regex_.size(); }
  bool looking_at(std::string_view text) const { return regex_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!looking_at(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t next() {
    if (at_end()) refuse("it ends too early");
    const CodePoint c = code_point_at(regex_, at_);
    at_ += c.length;
    return c.value;
  }
  [[noreturn]] void unsupported(size_t begin) const {
    refuse("\"{}\" isn't supported", regex_.substr(begin, at_ - begin));
  }

  // ---- Grammar ----

  Node alternatives() {
    if (++depth_ > kMaxDepth) refuse("groups are nested deeper than {}", kMaxDepth);
    Node node{.kind = Node::Kind::kAlternatives};
    do {
      node.children.push_back(sequence());
    } while (take("|"));
    --depth_;
    return node;
  }

  Node sequence() {
    Node node{.kind = Node::Kind::kSequence};
    char32_t previous = 0;  // the ASCII letter before, where case doesn't matter
    while (!at_end() && !looking_at("|") && !looking_at(")")) {
      const size_t begin = at_;
      Node item = atom();
      const bool letter = ignore_case_ && at_ == begin + 1 && is_ascii_letter(regex_[begin]);
      const char32_t now = letter ? static_cast<char32_t>(regex_[begin] | 0x20) : 0;
      refuse_ligature(previous, now);
      previous = now;
      node.children.push_back(quantified(std::move(item)));
    }
    return node;
  }

  /// The reference lets (?i:ss) match a sharp s, and likewise the ligatures.
  static void refuse_ligature(char32_t a, char32_t b) {
    const bool ligature =
        (a == 's' && (b == 's' || b == 't')) || (a == 'f' && (b == 'f' || b == 'i' || b == 'l'));
    if (ligature) refuse("letters that have a ligature aren't supported in (?i:...)");
  }

  Node atom() {
    const size_t begin = at_;
    const char32_t c = next();
    switch (c) {
      case '(':
        return group(begin);
      case '[':
        return set_node(char_class());
      case '\\':
        return set_node(escape(/*in_class=*/false));
      case '.': {
        CharSet any;
        any.add('\n', '\n');
        any.invert();
        return set_node(std::move(any));
      }
      case '^':
      case '$':
      case '*':
      case '+':
      case '?':
      case '{':
      case ']':
        unsupported(begin);
      default:
        return set_node(character(c));
    }
  }

  static Node set_node(CharSet set) { return {.kind = Node::Kind::kSet, .sets = {std::move(set)}}; }

  CharSet character(char32_t c) const {
    CharSet set;
    if (!ignore_case_) {
      set.add(c, c);
      return set;
    }
    if (c >= 0x80) refuse("only ASCII is supported in (?i:...)");
    add_folded(set, c);
    return set;
  }

  Node group(size_t begin) {
    const bool outer_case = ignore_case_;
    Node look{.kind = Node::Kind::kLook};
    bool is_look = true;
    if (take("?!")) {
      look.negative = true;
    } else if (!take("?=")) {
      is_look = false;
      if (take("?i:")) {
        ignore_case_ = true;
      } else if (!take("?:") && looking_at("?")) {
        while (!at_end() && next() != ')') {
        }
        unsupported(begin);
      }
    }
    Node inside = alternatives();
    if (!take(")")) refuse("'(' without ')'");
    ignore_case_ = outer_case;
    if (!is_look) return inside;
    look.children.push_back(std::move(inside));
    return look;
  }

  Node quantified(Node item) {
    const size_t begin = at_;
    Node repeat{.kind = Node::Kind::kRepeat};
    if (take("*")) {
      repeat.min = 0;
      repeat.max = kUnbounded;
    } else if (take("+")) {
      repeat.max = kUnbounded;
    } else if (take("?")) {
      repeat.min = 0;
    } else if (take("{")) {
      bounds(begin, repeat);
    } else {
      return item;
    }
    const bool counted = regex_[begin] == '{';
    if (take("?")) {
      repeat.greed = Node::Greed::kLazy;
    } else if (take("+")) {
      repeat.greed = Node::Greed::kPossessive;
    }
    const bool plain = repeat.greed == Node::Greed::kGreedy;
    // In Ruby's syntax {n,m}+ repeats the repetition, and {n}? means something else again.
    if ((counted && !plain) || looking_at("*") || looking_at("+") || looking_at("?") ||
        looking_at("{")) {
      if (plain) next();
      unsupported(begin);
    }
    if (item.kind == Node::Kind::kLook) unsupported(begin);
    if (repeat.greed == Node::Greed::kPossessive && item.kind != Node::Kind::kSet) {
      refuse("\"{}\" after a group isn't supported", regex_.substr(begin, at_ - begin));
    }
    if (repeat.max == kUnbounded && may_be_empty(item)) {
      refuse("\"{}\" after what may be empty isn't supported", regex_.substr(begin, at_ - begin));
    }
    repeat.children.push_back(std::move(item));
    return repeat;
  }

  /// n} or n,} or n,m} or ,m}
  void bounds(size_t begin, Node& repeat) {
    const std::optional<size_t> min = number();
    repeat.min = min.value_or(0);
    repeat.max = repeat.min;
    if (take(",")) {
      const std::optional<size_t> max = number();
      if (!min && !max) unsupported(begin);
      repeat.max = max.value_or(kUnbounded);
    } else if (!min) {
      unsupported(begin);
    }
    if (!take("}") || repeat.min > repeat.max || repeat.max == 0) unsupported(begin);
  }

  std::optional<size_t> number() {
    std::optional<size_t> value;
    while (!at_end() && regex_[at_] >= '0' && regex_[at_] <= '9') {
      value = value.value_or(0) * 10 + static_cast<size_t>(next() - '0');
      if (*value > kMaxCount) refuse("more than {} repetitions aren't supported", kMaxCount);
    }
    return value;
  }

  // ---- Classes ----

  /// After '['.
  CharSet char_class() {
    if (++depth_ > kMaxDepth) refuse("classes are nested deeper than {}", kMaxDepth);
    const size_t begin = at_ - 1;
    const bool negative = take("^");
    CharSet set;
    if (looking_at("]")) refuse("a class that begins with ']' isn't supported");
    while (!take("]")) {
      if (looking_at("&&") || looking_at("[:")) {
        at_ += 2;
        unsupported(at_ - 2);
      }
      class_item(set);
    }
    if (negative) set.invert();
    if (negative && ignore_case_) unsupported(begin);
    --depth_;
    return set;
  }

  void class_item(CharSet& set) {
    const size_t begin = at_;
    const char32_t c = next();
    if (c == '[') return set.add(char_class());
    const std::optional<char32_t> first = c == '\\' ? escaped_character() : std::optional(c);
    if (!first) return set.add(escape(/*in_class=*/true));
    const bool range = looking_at("-") && !looking_at("-]");
    if (!range) return set.add(character(*first));
    take("-");
    const char32_t after = next();
    const std::optional<char32_t> last = after == '\\' ? escaped_character() : std::optional(after);
    if (!last || after == '[' || *first > *last || ignore_case_) unsupported(begin);
    set.add(*first, *last);
  }

  /// After '\': the character it stands for, or nothing (and nothing is taken) where it is a set.
  std::optional<char32_t> escaped_character() {
    const size_t begin = at_ - 1;
    if (at_end()) refuse("it ends in a backslash");
    if (looking_at("s") || looking_at("S") || looking_at("d") || looking_at("D") ||
        looking_at("p") || looking_at("P")) {
      return std::nullopt;
    }
    const char32_t c = next();
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'u':
        return hexadecimal(begin, 4);
      case 'x':
        if (!take("{")) return hexadecimal(begin, 2);
        return braced_hexadecimal(begin);
      default:
        if (c >= 0x80 || is_ascii_letter(c) || (c >= '0' && c <= '9')) unsupported(begin);
        return c;
    }
  }

  char32_t hexadecimal(size_t begin, int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) value = value * 16 + hex_digit(begin);
    // Above 7F, \x stands for a byte.
    if (digits == 2 && value > 0x7f) unsupported(begin);
    return checked(begin, value);
  }

  char32_t braced_hexadecimal(size_t begin) {
    char32_t value = 0;
    do {
      value = value * 16 + hex_digit(begin);
      if (value > kLastCodePoint) unsupported(begin);
    } while (!take("}"));
    return checked(begin, value);
  }

  char32_t checked(size_t begin, char32_t value) const {
    if (value >= 0xd800 && value < 0xe000) unsupported(begin);
    return value;
  }

  char32_t hex_digit(size_t begin) {
    const char32_t c = next();
    if (c >= '0' && c <= '9') return c - '0';
    const char32_t small = c | 0x20;
    if (small < 'a' || small > 'f') unsupported(begin);
    return small - 'a' + 10;
  }

  /// After '\': the set of a character or of \s \d \p{..} and their opposites.
  CharSet escape(bool in_class) {
    if (!in_class) {
      if (const std::optional<char32_t> c = escaped_character()) return character(*c);
    }
    const size_t begin = at_ - 1;
    const char32_t c = next();
    CharSet set;
    bool negative = c == 'S' || c == 'D' || c == 'P';
    if (c == 's' || c == 'S') {
      set.add_white_space();
    } else if (c == 'd' || c == 'D') {
      set.add_categories(categories_named("Nd"));
    } else {
      if (!take("{")) unsupported(begin);
      negative ^= take("^");
      const size_t name = at_;
      while (next() != '}') {
      }
      const uint32_t mask = categories_named(regex_.substr(name, at_ - 1 - name));
      if (mask == 0 || ignore_case_) unsupported(begin);
      set.add_categories(mask);
    }
    if (negative) set.invert();
    return set;
  }

  std::string_view regex_;
  size_t at_ = 0;
  int depth_ = 0;
  bool ignore_case_ = false;
};

}  // namespace

Node parse_split_pattern(std::string_view regex) { return Parser(regex).parse(); }

bool may_be_empty(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kSet:
      return false;
    case Node::Kind::kLook:
      return true;
    case Node::Kind::kRepeat:
      return node.min == 0 || may_be_empty(node.children[0]);
    case Node::Kind::kSequence:
      for (const Node& child : node.children) {
        if (!may_be_empty(child)) return false;
      }
      return true;
    case Node::Kind::kAlternatives:
      for (const Node& child : node.children) {
        if (may_be_empty(child)) return true;
      }
      return false;
  }
  return false;
}

}  // namespace llm
