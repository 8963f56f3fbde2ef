// The tree of a "Split" step's regular expression.
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "text/general_category.h"

namespace llm {

struct SplitPatternNode {
  static constexpr size_t kUnbounded = std::numeric_limits<size_t>::max();

  enum class Kind {
    kSet,       // one character of `sets[0]`
    kSequence,  // the children one after another
    kAlternatives,
    kRepeat,  // `children[0]`, `min` to `max` times
    kLook,    // `children[0]` must follow (or must not), but isn't part of the match
  };
  enum class Greed { kGreedy, kLazy, kPossessive };

  Kind kind;
  std::vector<CharSet> sets = {};
  std::vector<SplitPatternNode> children = {};
  size_t min = 1;
  size_t max = 1;
  Greed greed = Greed::kGreedy;  // kRepeat; kPossessive only around a kSet
  bool negative = false;         // kLook
};

/// The pattern's alternatives. Refuses (exit code 2), naming it, what isn't supported.
SplitPatternNode parse_split_pattern(std::string_view regex);

/// Whether the node can match without a character.
bool may_be_empty(const SplitPatternNode& node);

}  // namespace llm
