#include "backend/logprobs.h"

#include <algorithm>
#include <cmath>

#include "backend/sampling.h"
#include "base/error.h"

namespace llm {
namespace {

/// Ids of the num_top largest logits, the largest first, the lower id on a tie. One pass: a logit
/// that isn't larger than the least of those kept, as nearly all are, costs a comparison.
std::vector<int32_t> most_probable(std::span<const float> logits, int64_t num_top) {
  const size_t most = std::min(static_cast<size_t>(num_top), logits.size());
  std::vector<int32_t> top;
  top.reserve(most + 1);
  if (most == 0) return top;
  const auto logit_of = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  for (size_t i = 0; i < logits.size(); ++i) {
    if (top.size() == most && !(logits[i] > logit_of(top.back()))) continue;
    const auto place = std::upper_bound(top.begin(), top.end(), logits[i],
                                        [&](float x, int32_t id) { return x > logit_of(id); });
    top.insert(place, static_cast<int32_t>(i));
    if (top.size() > most) top.pop_back();
  }
  return top;
}

}  // namespace

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
  for (const int32_t top : most_probable(logits, num_top)) result.top.push_back(logprob_of(top));
  return result;
}

}  // namespace llm
