#include "text/split_pattern.h"

#include "base/error.h"
#include "text/utf8.h"

namespace llm {
namespace {

/// A pattern in use looks at each character about ten times.
constexpr size_t kStepsPerByte = 200;
constexpr size_t kAlwaysAllowed = 4000000;  // some ten milliseconds

size_t previous_character(std::string_view text, size_t position) {
  do {
    --position;
  } while ((static_cast<unsigned char>(text[position]) & 0xc0) == 0x80);
  return position;
}

}  // namespace

std::optional<SplitPattern::Match> SplitPattern::Search::next(size_t from) {
  while (from < text_.size()) {
    const CodePoint c = code_point_at(text_, from);
    for (const Alternative& alternative : pattern_.alternatives_) {
      if (!pattern_.sets_[alternative.first].contains(c.value)) continue;
      const size_t end = end_of_match(alternative.instruction, from);
      if (end != kNoMatch) return Match{from, end};
    }
    from += c.length;
  }
  return std::nullopt;
}

/// The end of what the instructions from this one on match at `position`, or kNoMatch.
size_t SplitPattern::Search::end_of_match(uint32_t instruction, size_t position) {
  const size_t base = retries_.size();
  while (true) {
    const Instruction& now = pattern_.program_[instruction];
    bool fits = true;
    switch (now.kind) {
      case Instruction::Kind::kMatch:
        retries_.resize(base);
        return position;
      case Instruction::Kind::kJump:
        instruction = now.target;
        break;
      case Instruction::Kind::kSplit:
        retries_.push_back({now.target, position, position});
        ++instruction;
        break;
      case Instruction::Kind::kLook:
        fits = (end_of_match(instruction + 1, position) == kNoMatch) == now.negative;
        instruction = now.target;
        break;
      case Instruction::Kind::kRun: {
        const CharTable& set = pattern_.sets_[now.set];
        size_t end = position;
        size_t lowest = position;
        size_t count = 0;
        while (count < now.max && end < text_.size()) {
          const CodePoint c = code_point_at(text_, end);
          if (!set.contains(c.value)) break;
          end += c.length;
          if (++count == now.min) lowest = end;
        }
        count_steps(count + 1);
        fits = count >= now.min;
        ++instruction;
        if (fits && !now.possessive && end > lowest) {
          retries_.push_back({instruction, previous_character(text_, end), lowest});
        }
        position = end;
        break;
      }
    }
    if (!fits && !retry(base, instruction, position)) return kNoMatch;
  }
}

/// Takes up the last thing that may still be tried, of those above `base`.
bool SplitPattern::Search::retry(size_t base, uint32_t& instruction, size_t& position) {
  if (retries_.size() == base) return false;
  count_steps(1);
  Retry& last = retries_.back();
  instruction = last.instruction;
  position = last.position;
  if (last.position == last.lowest) {
    retries_.pop_back();
  } else {
    last.position = previous_character(text_, last.position);
  }
  return true;
}

void SplitPattern::Search::count_steps(size_t steps) {
  steps_ += steps;
  if (steps_ > kAlwaysAllowed + kStepsPerByte * text_.size()) {
    refuse("the tokenizer's split pattern takes too many steps on this text ({} bytes)",
           text_.size());
  }
}

}  // namespace llm
