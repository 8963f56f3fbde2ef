// The regular expressions that "Split" steps of a tokenizer.json use, matched as the reference
// matches them (Oniguruma, Ruby's syntax): by backtracking, the first alternative that fits wins.
//
// A subset that covers the patterns in use: literals, classes (nested, with ranges, \s \d \p{..}),
// groups, (?i:...) around ASCII, lookahead, greedy, lazy and possessive quantifiers. What isn't
// understood is refused by name, never guessed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/general_category.h"

namespace llm {

class SplitPattern {
 public:
  /// Refuses (exit code 2), naming the part, what it doesn't support. Also a pattern that could
  /// match nothing at all.
  explicit SplitPattern(std::string_view regex);

  /// A pattern that matches exactly these characters.
  static SplitPattern literal(std::string_view text);

  /// Bytes [begin, end) of a text.
  struct Match {
    size_t begin;
    size_t end;
  };

  /// Finds matches in one text, from the left to the right.
  class Search {
   public:
    Search(const SplitPattern& pattern, std::string_view text) : pattern_(pattern), text_(text) {}

    /// The first match that begins at `from` or later. Refuses (exit code 2) where the pattern
    /// takes far more steps than the text is long, as a careless one may.
    std::optional<Match> next(size_t from);

   private:
    /// Where to go on when what was tried last doesn't fit: at `position` or, if that's past
    /// `lowest`, at any character before it down to there.
    struct Retry {
      uint32_t instruction;
      size_t position;
      size_t lowest;
    };
    static constexpr size_t kNoMatch = static_cast<size_t>(-1);

    size_t end_of_match(uint32_t instruction, size_t position);
    bool retry(size_t base, uint32_t& instruction, size_t& position);
    void count_steps(size_t steps);

    const SplitPattern& pattern_;
    std::string_view text_;
    std::vector<Retry> retries_;
    size_t steps_ = 0;
  };

 private:
  friend class SplitPatternCompiler;

  struct Instruction {
    enum class Kind : uint8_t {
      kRun,    // `min` to `max` characters of `set`, as many as fit
      kSplit,  // go on at the next instruction, or else at `target`
      kJump,   // go on at `target`
      kLook,   // what follows up to kMatch must fit here (or must not); go on at `target`
      kMatch,
    };
    Kind kind;
    bool possessive = false;  // kRun: never gives a character back
    bool negative = false;    // kLook
    uint32_t set = 0;         // kRun: in sets_
    uint32_t target = 0;
    size_t min = 1;
    size_t max = 1;
  };
  struct Alternative {
    uint32_t instruction;  // its first
    uint32_t first;        // what it may begin with: in sets_
  };

  SplitPattern() = default;

  std::vector<CharTable> sets_;
  std::vector<Instruction> program_;
  std::vector<Alternative> alternatives_;
};

}  // namespace llm
