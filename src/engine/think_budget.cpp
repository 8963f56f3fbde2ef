#include "engine/think_budget.h"

namespace llm {

ThinkBudget::ThinkBudget(const Tokenizer& tokenizer, const AnswerStream& answer, int64_t limit)
    : tokenizer_(&tokenizer),
      answer_(&answer),
      limit_(limit),
      newline_(tokenizer.encode("\n")),
      close_(tokenizer.encode("</think>")) {}

int32_t ThinkBudget::next(int32_t sampled) {
  if (!answer_->in_thought()) {
    closing_ = 0;
    return sampled;
  }
  const auto close_size = static_cast<int64_t>(close_.size());
  const int64_t left = limit_ - answer_->reasoning_tokens();
  if (closing_ == 0 && left > close_size) {
    const bool last = left == close_size + 1;
    const bool fits = sampled == close_.front() || tokenizer_->bytes_of(sampled).ends_with('\n');
    return last && !fits && newline_.size() == 1 ? newline_.front() : sampled;
  }
  if (closing_ == 0) spent_ = sampled != close_.front();
  const int32_t forced = close_[closing_];
  closing_ = (closing_ + 1) % close_.size();
  return forced;
}

}  // namespace llm
