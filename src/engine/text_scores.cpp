#include "engine/text_scores.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "backend/logprobs.h"
#include "backend/sampling.h"
#include "base/error.h"

namespace llm {
namespace {

/// The id of the largest logit, the lowest on a tie.
int64_t top_of(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

double mean_of(std::span<const TokenScore> scores, double TokenScore::*value) {
  double sum = 0;
  for (const TokenScore& score : scores) sum += score.*value;
  return sum / static_cast<double>(scores.size());
}

/// Of the mean: standard deviation (over n - 1) / sqrt(n).
std::optional<double> standard_error(std::span<const TokenScore> scores, double TokenScore::*value,
                                     double mean) {
  if (scores.size() < 2) return std::nullopt;
  double squares = 0;
  for (const TokenScore& score : scores) squares += std::pow(score.*value - mean, 2);
  const auto n = static_cast<double>(scores.size());
  const double error = std::sqrt(squares / (n - 1) / n);
  return std::isfinite(error) ? std::optional(error) : std::nullopt;
}

double kl_p99(std::span<const TokenScore> scores) {
  std::vector<double> values;
  values.reserve(scores.size());
  for (const TokenScore& score : scores) values.push_back(score.kl);
  const auto rank = static_cast<ptrdiff_t>(std::ceil(0.99 * static_cast<double>(values.size())));
  const auto place = values.begin() + (rank - 1);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

}  // namespace

std::vector<EvalWindow> eval_windows(int64_t num_tokens, int64_t ctx, int64_t stride) {
  LLM_CHECK(num_tokens >= 2 && ctx >= 2 && stride >= 1 && stride <= ctx);
  std::vector<EvalWindow> windows;
  int64_t scored = 0;  // tokens before this one have been scored, or never will be
  for (int64_t begin = 0; scored < num_tokens; begin += stride) {
    const int64_t end = std::min(begin + ctx, num_tokens);
    const EvalWindow window{begin, end, std::max(scored, begin + 1)};
    if (window.num_scored() > 0) windows.push_back(window);
    scored = end;
  }
  return windows;
}

TokenScore score_token(std::span<const float> logits, int32_t token) {
  check_logits(logits, static_cast<int64_t>(logits.size()));
  return {.nll = log_sum_exp(logits) - static_cast<double>(logits[static_cast<size_t>(token)])};
}

void compare_token(TokenScore& score, int32_t token, std::span<const float> logits,
                   std::span<const float> baseline_logits, int64_t num_ids) {
  check_logits(logits, num_ids);
  const auto own = logits.first(static_cast<size_t>(num_ids));
  const auto baseline = baseline_logits.first(static_cast<size_t>(num_ids));
  score.excess_nll = score.nll - score_token(baseline_logits, token).nll;
  score.kl = kl_divergence(baseline, own);
  score.same_top = top_of(own) == top_of(baseline);
}

double kl_divergence(std::span<const float> p_logits, std::span<const float> q_logits) {
  LLM_CHECK(p_logits.size() == q_logits.size());
  const double p_largest = largest_of(p_logits);
  double weights = 0;      // of p, times exp(p_largest)
  double differences = 0;  // of the logits, weighted
  for (size_t i = 0; i < p_logits.size(); ++i) {
    const double weight = std::exp(static_cast<double>(p_logits[i]) - p_largest);
    if (weight == 0) continue;
    weights += weight;
    differences += weight * (static_cast<double>(p_logits[i]) - static_cast<double>(q_logits[i]));
  }
  // The first total is log_sum_exp(p_logits), rounding included: equal rows give 0.
  const double p_total = p_largest + std::log(weights);
  return std::max(0.0, differences / weights - p_total + log_sum_exp(q_logits));
}

EvalSummary summarize(std::span<const TokenScore> scores) {
  LLM_CHECK(!scores.empty());
  EvalSummary summary{.tokens = std::ssize(scores), .nll = mean_of(scores, &TokenScore::nll)};
  summary.ppl = std::exp(summary.nll);
  summary.nll_se = standard_error(scores, &TokenScore::nll, summary.nll);
  if (summary.nll_se) summary.ppl_se = summary.ppl * *summary.nll_se;
  if (summary.ppl_se && !std::isfinite(*summary.ppl_se)) summary.ppl_se.reset();
  summary.excess_nll = mean_of(scores, &TokenScore::excess_nll);
  summary.excess_nll_se = standard_error(scores, &TokenScore::excess_nll, summary.excess_nll);
  summary.kl_mean = mean_of(scores, &TokenScore::kl);
  summary.kl_p99 = kl_p99(scores);
  summary.num_same_top = std::count_if(scores.begin(), scores.end(),
                                       [](const TokenScore& score) { return score.same_top; });
  return summary;
}

}  // namespace llm
