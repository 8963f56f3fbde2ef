// Ends a thought that has become too long, so that there is an answer.
//
// At most `limit` ids belong to thoughts, as usage.reasoning_tokens counts them: with <think> and
// </think>, and never fewer than those. The last two are a newline and </think>: Qwen3 and the
// models distilled from R1 close every thought that way, and what follows (a blank line, the
// answer) they then write themselves. No sentence that excuses the haste is put into the thought:
// it would have to fit the budget and the thought's language, and these models weren't trained on
// one.
//
// A thought that ends by itself within the limit is untouched, with one exception: a thought of
// exactly `limit` ids that doesn't end in a newline gets one.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/answer_stream.h"

namespace llm {

class ThinkBudget {
 public:
  /// Both outlive the budget. `answer` must have taken all ids before the one in next().
  ThinkBudget(const Tokenizer& tokenizer, const AnswerStream& answer, int64_t limit);

  /// For Request::on_sampled: the id to use instead of the sampled one, most often that one.
  int32_t next(int32_t sampled);

  /// A thought was ended here.
  bool spent() const { return spent_; }

 private:
  const Tokenizer* tokenizer_;
  const AnswerStream* answer_;
  int64_t limit_;
  std::vector<int32_t> newline_;
  std::vector<int32_t> close_;
  size_t closing_ = 0;  // ids of close_ that have been forced
  bool spent_ = false;
};

}  // namespace llm
