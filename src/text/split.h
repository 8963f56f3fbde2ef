// A "Split" step of a tokenizer.json: cuts a text at the matches of a pattern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "text/split_pattern.h"

namespace llm {

/// What becomes of the matches, the others being the parts between them.
enum class SplitBehavior : uint8_t {
  kIsolated,            // pieces like the others
  kRemoved,             // left out
  kMergedWithPrevious,  // joined to the part before, if there is one
  kMergedWithNext,      // joined to the part after, if there is one
  kContiguous,          // neighbouring ones joined
};

class Split {
 public:
  /// With `invert` the matches are what lies between, and the other way round.
  Split(SplitPattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::make_shared<const SplitPattern>(std::move(pattern))),
        behavior_(behavior),
        invert_(invert) {}

  /// Calls visit(std::string_view piece) for the pieces of `text` in order; none is empty.
  template <typename Visit>
  void for_each_piece(std::string_view text, Visit&& visit) const {
    SplitPattern::Search search(*pattern_, text);
    Part held;  // a piece that the next part may still join
    const auto emit = [&] {
      const bool dropped = behavior_ == SplitBehavior::kRemoved && held.matched;
      if (held.end > held.begin && !dropped) {
        visit(text.substr(held.begin, held.end - held.begin));
      }
    };
    const auto take = [&](const Part& part) {
      if (part.begin == part.end) return;
      if (joins(held, part)) {
        held.end = part.end;
        held.matched = part.matched;
        return;
      }
      emit();
      held = part;
    };
    for (size_t done = 0; done < text.size();) {
      const std::optional<SplitPattern::Match> match = search.next(done);
      const size_t begin = match ? match->begin : text.size();
      take({done, begin, invert_});
      if (match) take({begin, match->end, !invert_});
      done = match ? match->end : text.size();
    }
    emit();
  }

 private:
  struct Part {
    size_t begin = 0;
    size_t end = 0;
    bool matched = false;
  };

  bool joins(const Part& previous, const Part& part) const {
    if (previous.begin == previous.end) return false;
    switch (behavior_) {
      case SplitBehavior::kIsolated:
      case SplitBehavior::kRemoved:
        return false;
      case SplitBehavior::kMergedWithPrevious:
        return part.matched && !previous.matched;
      case SplitBehavior::kMergedWithNext:
        return !part.matched && previous.matched;
      case SplitBehavior::kContiguous:
        return part.matched == previous.matched;
    }
    return false;
  }

  std::shared_ptr<const SplitPattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

}  // namespace llm
