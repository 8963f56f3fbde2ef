// From a regular expression's text to the instructions of a SplitPattern.
#include <fmt/format.h>

#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "text/split_pattern.h"
#include "text/utf8.h"

namespace llm {
namespace {

constexpr size_t kUnbounded = std::numeric_limits<size_t>::max();
constexpr size_t kMaxCount = 1000;
constexpr size_t kMaxInstructions = 4096;
constexpr size_t kMaxSets = 512;
constexpr int kMaxDepth = 32;
constexpr char32_t kLastCodePoint = 0x10ffff;

struct Node {
  enum class Kind { kSet, kSequence, kAlternatives, kRepeat, kLook };
  Kind kind;
  std::vector<CharSet> sets = {};   // kSet: one
  std::vector<Node> children = {};  // kRepeat, kLook: one
  size_t min = 1;                   // kRepeat
  size_t max = 1;
  enum class Greed { kGreedy, kLazy, kPossessive } greed = Greed::kGreedy;
  bool negative = false;  // kLook
};

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

/// Adds what a match of the node may begin with.
void add_first(const Node& node, CharSet& first) {
  switch (node.kind) {
    case Node::Kind::kSet:
      first.add(node.sets[0]);
      return;
    case Node::Kind::kLook:
      return;
    case Node::Kind::kRepeat:
      if (node.max > 0) add_first(node.children[0], first);
      return;
    case Node::Kind::kAlternatives:
      for (const Node& child : node.children) add_first(child, first);
      return;
    case Node::Kind::kSequence:
      for (const Node& child : node.children) {
        add_first(child, first);
        if (!may_be_empty(child)) return;
      }
  }
}

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

class SplitPatternCompiler {
 public:
  using Instruction = SplitPattern::Instruction;

  explicit SplitPatternCompiler(SplitPattern& pattern) : pattern_(pattern) {}

  /// Of a tree's top, whose alternatives are tried in order.
  void compile(const Node& alternatives) {
    if (may_be_empty(alternatives)) refuse("a pattern that can match nothing isn't supported");
    for (const Node& child : alternatives.children) {
      CharSet first;
      add_first(child, first);
      pattern_.alternatives_.push_back({here(), index_of(std::move(first))});
      emit(child);
      add({.kind = Instruction::Kind::kMatch});
    }
  }

 private:
  uint32_t here() const { return static_cast<uint32_t>(pattern_.program_.size()); }

  /// Its place in the program.
  uint32_t add(Instruction instruction) {
    if (pattern_.program_.size() == kMaxInstructions) refuse("it is too large");
    pattern_.program_.push_back(instruction);
    return here() - 1;
  }

  void point_here(uint32_t instruction) { pattern_.program_[instruction].target = here(); }

  void emit(const Node& node) {
    switch (node.kind) {
      case Node::Kind::kSet:
        return emit_run(node, 1, 1, false);
      case Node::Kind::kSequence:
        for (const Node& child : node.children) emit(child);
        return;
      case Node::Kind::kAlternatives:
        return emit_alternatives(node);
      case Node::Kind::kRepeat:
        return emit_repeat(node);
      case Node::Kind::kLook: {
        const uint32_t look = add({.kind = Instruction::Kind::kLook, .negative = node.negative});
        emit(node.children[0]);
        add({.kind = Instruction::Kind::kMatch});
        return point_here(look);
      }
    }
  }

  uint32_t index_of(CharSet set) {
    std::vector<CharTable>& tables = pattern_.sets_;
    for (uint32_t i = 0; i < tables.size(); ++i) {
      if (tables[i].set() == set) return i;
    }
    if (tables.size() == kMaxSets) refuse("it is too large");
    tables.emplace_back(std::move(set));
    return static_cast<uint32_t>(tables.size() - 1);
  }

  void emit_run(const Node& set, size_t min, size_t max, bool possessive) {
    add({.kind = Instruction::Kind::kRun,
         .possessive = possessive,
         .set = index_of(set.sets[0]),
         .min = min,
         .max = max});
  }

  void emit_alternatives(const Node& node) {
    std::vector<uint32_t> jumps;
    for (size_t i = 0; i + 1 < node.children.size(); ++i) {
      const uint32_t split = add({.kind = Instruction::Kind::kSplit});
      emit(node.children[i]);
      jumps.push_back(add({.kind = Instruction::Kind::kJump}));
      point_here(split);
    }
    emit(node.children.back());
    for (const uint32_t jump : jumps) point_here(jump);
  }

  void emit_repeat(const Node& node) {
    const Node& item = node.children[0];
    const bool lazy = node.greed == Node::Greed::kLazy;
    if (item.kind == Node::Kind::kSet && !lazy) {
      return emit_run(item, node.min, node.max, node.greed == Node::Greed::kPossessive);
    }
    for (size_t i = 0; i < node.min; ++i) emit(item);
    if (node.max == kUnbounded) return emit_loop(item, lazy);
    std::vector<uint32_t> exits;
    for (size_t i = node.min; i < node.max; ++i) {
      exits.push_back(emit_choice(lazy));
      emit(item);
    }
    for (const uint32_t exit : exits) point_here(exit);
  }

  /// Any number of the item.
  void emit_loop(const Node& item, bool lazy) {
    const uint32_t again = here();
    const uint32_t exit = emit_choice(lazy);
    emit(item);
    add({.kind = Instruction::Kind::kJump, .target = again});
    point_here(exit);
  }

  /// A choice between what comes next and a place still to be set by point_here(), the former
  /// first unless lazy.
  uint32_t emit_choice(bool lazy) {
    const uint32_t split = add({.kind = Instruction::Kind::kSplit});
    if (!lazy) return split;
    const uint32_t exit = add({.kind = Instruction::Kind::kJump});
    point_here(split);
    return exit;
  }

  SplitPattern& pattern_;
};

SplitPattern::SplitPattern(std::string_view regex) {
  SplitPatternCompiler(*this).compile(Parser(regex).parse());
}

SplitPattern SplitPattern::literal(std::string_view text) {
  if (text.empty()) refuse("an empty pattern isn't supported");
  Node sequence{.kind = Node::Kind::kSequence};
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    CharSet set;
    set.add(c.value, c.value);
    sequence.children.push_back({.kind = Node::Kind::kSet, .sets = {std::move(set)}});
    i += c.length;
  }
  SplitPattern pattern;
  SplitPatternCompiler(pattern).compile(
      {.kind = Node::Kind::kAlternatives, .children = {std::move(sequence)}});
  return pattern;
}

}  // namespace llm
