// Notices an answer that repeats itself without end, as small models and greedy decoding do.
//
// An answer loops when its last ids are one piece of text over and over, id for id. How much of
// that is too much:
// - The piece (the period) is at most 512 ids: a few paragraphs. Longer ones haven't been worth
//   the wait.
// - At least 64 repetitions, so that lists, table rulers, "ha ha ha", and a sentence that the user
//   wants fifty times, go through,
// - but never less than 1024 ids, so that a row of zeros or dashes in code or a table does too,
// - and never more than 2048 ids, at which even the longest period has come back four times. That
//   is where a requested repetition can meet the guard: 50 times a text of more than 40 ids.
// Text that changes a little each time (counting, numbered lines) has no period and never trips it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace llm {

struct Repetition {
  int64_t period = 0;  // ids of the piece
  int64_t times = 0;   // whole repetitions of it, the first included
};

class LoopGuard {
 public:
  static constexpr int64_t kMaxPeriod = 512;
  static constexpr int64_t kMinRepetitions = 64;
  static constexpr int64_t kMinIds = 1024;
  static constexpr int64_t kEnoughIds = 2048;

  /// Takes the answer's next id. True once the answer loops.
  bool push(int32_t id);

  /// What repeats, once push() returned true.
  const std::optional<Repetition>& found() const { return found_; }

 private:
  std::vector<int32_t> ids_;
  /// matches_[p - 1]: how many of the last ids are each equal to the id p places before.
  std::vector<int64_t> matches_ = std::vector<int64_t>(kMaxPeriod, 0);
  std::optional<Repetition> found_;
};

}  // namespace llm
