#include "backend/logprobs.h"

#include <cmath>

#include "backend/most_probable.h"
#include "backend/sampling.h"
#include "base/error.h"

namespace llm {

double log_sum_exp(std::span<const float> logits) {
  const double largest = largest_of(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum);
}

GeneratedLogprobs logprobs_of(std::span<const float> logits, int32_t id, int64_t num_top) {
  LLM_CHECK(id >= 0 && static_cast<size_t>(id) < logits.size() && num_top >= 0);
  const double total = log_sum_exp(logits);
  const auto logprob_of = [&](int32_t of) {
    return TokenLogprob{of, static_cast<double>(logits[static_cast<size_t>(of)]) - total};
  };
  GeneratedLogprobs result{.chosen = logprob_of(id)};
  for (const uint64_t rank : most_probable(logits, static_cast<size_t>(num_top))) {
    result.top.push_back(logprob_of(draw::id_of(rank)));
  }
  return result;
}

}  // namespace llm
