// From a regular expression's tree to the instructions of a SplitPattern.
#include <utility>

#include "base/error.h"
#include "text/split_pattern.h"
#include "text/split_pattern_parser.h"
#include "text/utf8.h"

namespace llm {
namespace {

using Node = SplitPatternNode;

constexpr size_t kMaxInstructions = 4096;
constexpr size_t kMaxSets = 512;

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
    if (node.max == Node::kUnbounded) return emit_loop(item, lazy);
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
  SplitPatternCompiler(*this).compile(parse_split_pattern(regex));
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
