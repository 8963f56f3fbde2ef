// Windows of a text, KL of two rows, and the sums over a text.
#include "engine/text_scores.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/logprobs.h"
#include "base/error.h"

namespace llm {
namespace {

using Row = std::vector<float>;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

Row random_row(size_t size, float scale, std::mt19937& random) {
  std::normal_distribution<float> normal;
  Row row(size);
  for (float& x : row) x = scale * normal(random);
  return row;
}

/// The sum as the definition has it, in a wider type.
long double kl_reference(const Row& p, const Row& q) {
  const auto total = [](const Row& row) {
    const long double largest = *std::max_element(row.begin(), row.end());
    long double sum = 0;
    for (const float x : row) sum += std::exp(static_cast<long double>(x) - largest);
    return largest + std::log(sum);
  };
  const long double p_total = total(p), q_total = total(q);
  long double kl = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const long double log_p = p[i] - p_total;
    if (std::isfinite(log_p)) kl += std::exp(log_p) * (log_p - (q[i] - q_total));
  }
  return kl;
}

TEST_CASE("windows: each token is scored in the first window that has something before it") {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const auto n = static_cast<int64_t>(2 + random() % 90);
    const auto ctx = static_cast<int64_t>(2 + random() % 40);
    const auto stride = static_cast<int64_t>(1 + random() % static_cast<unsigned>(ctx));
    CAPTURE(n);
    CAPTURE(ctx);
    CAPTURE(stride);
    std::vector<int64_t> begin_of(static_cast<size_t>(n), -1);
    int64_t last_begin = -1;
    for (const EvalWindow& window : eval_windows(n, ctx, stride)) {
      CHECK(window.begin > last_begin);
      CHECK(window.end - window.begin <= ctx);
      CHECK(window.end <= n);
      CHECK(window.num_scored() > 0);
      last_begin = window.begin;
      for (int64_t token = window.first_scored; token < window.end; ++token) {
        CHECK(begin_of[static_cast<size_t>(token)] == -1);
        begin_of[static_cast<size_t>(token)] = window.begin;
      }
    }
    for (int64_t token = 0; token < n; ++token) {
      int64_t begin = 0;  // of the first window that reaches it
      while (begin + ctx <= token) begin += stride;
      CHECK(begin_of[static_cast<size_t>(token)] == (begin == token ? -1 : begin));
    }
  }
}

TEST_CASE("windows: a text within one window, and stride = ctx") {
  CHECK(eval_windows(10, 64, 32) == std::vector<EvalWindow>{{0, 10, 1}});
  CHECK(eval_windows(10, 10, 5) == std::vector<EvalWindow>{{0, 10, 1}});
  // The ninth token would be alone in a window of its own.
  CHECK(eval_windows(9, 4, 4) == std::vector<EvalWindow>{{0, 4, 1}, {4, 8, 5}});
}

TEST_CASE("KL of two rows: as the definition in long double, 0 for equal rows") {
  std::mt19937 random(4);
  for (const float scale : {0.1f, 3.0f, 40.0f}) {
    for (const size_t size : {1, 2, 300, 5000}) {
      CAPTURE(scale);
      CAPTURE(size);
      const Row p = random_row(size, scale, random), q = random_row(size, scale, random);
      const auto expected = static_cast<double>(kl_reference(p, q));
      CHECK(kl_divergence(p, q) == doctest::Approx(expected).epsilon(1e-10));
      CHECK(kl_divergence(p, p) == 0.0);
      CHECK(kl_divergence(q, q) == 0.0);
      Row shifted = p;  // the same distribution, not quite after rounding to float
      for (float& x : shifted) x += 1.0f;
      CHECK(kl_divergence(p, shifted) >= 0.0);
      CHECK(kl_divergence(p, shifted) < 1e-6);
    }
  }
}

TEST_CASE("KL of two rows: ids without probability") {
  const Row all = {0.0f, 0.0f}, one = {0.0f, kMinusInfinity};
  CHECK(kl_divergence(one, all) == doctest::Approx(std::log(2.0)));
  CHECK(std::isinf(kl_divergence(all, one)));
  CHECK(kl_divergence(one, one) == 0.0);
  const Row far = {1e4f, -1e4f};
  CHECK(kl_divergence(far, all) == doctest::Approx(std::log(2.0)));
  CHECK(kl_divergence(all, far) == doctest::Approx(1e4 - std::log(2.0)));
}

TEST_CASE("a token's score: its NLL over the whole row, the comparison without padding") {
  const Row own = {1.0f, 4.0f, 2.0f, 9.0f}, baseline = {1.0f, 5.0f, 5.0f, 0.0f};
  TokenScore score = score_token(own, 2);
  CHECK(score.nll == doctest::Approx(log_sum_exp(own) - 2.0));
  compare_token(score, 2, own, baseline, 3);
  const Row compared = {1.0f, 4.0f, 2.0f};
  CHECK(score.kl == kl_divergence(Row{1.0f, 5.0f, 5.0f}, compared));
  CHECK(score.same_top);  // of a tie the lower id
  CHECK(score.excess_nll ==
        doctest::Approx((log_sum_exp(own) - 2.0) - (log_sum_exp(baseline) - 5.0)));
  compare_token(score, 2, own, Row{1.0f, 5.0f, 5.5f}, 3);
  CHECK_FALSE(score.same_top);
  CHECK_THROWS_WITH_AS(score_token(Row{0.0f, std::nanf("")}, 0),
                       doctest::Contains("the logit of token 1 is not a number"), Error);
}

TEST_CASE("sums over a text: mean, standard error, 99th percentile") {
  std::vector<TokenScore> scores;
  for (int i = 1; i <= 200; ++i) {
    scores.push_back({.nll = i % 2 == 0 ? 1.0 : 3.0,
                      .excess_nll = i % 2 == 0 ? 0.5 : 0.1,
                      .kl = 0.01 * i,
                      .same_top = i <= 150});
  }
  const EvalSummary summary = summarize(scores);
  CHECK(summary.tokens == 200);
  CHECK(summary.nll == doctest::Approx(2.0));
  CHECK(summary.ppl == doctest::Approx(std::exp(2.0)));
  REQUIRE(summary.nll_se.has_value());
  CHECK(*summary.nll_se == doctest::Approx(std::sqrt(200.0 / 199.0 / 200.0)));
  CHECK(*summary.ppl_se == doctest::Approx(std::exp(2.0) * *summary.nll_se));
  CHECK(summary.excess_nll == doctest::Approx(0.3));
  CHECK(*summary.excess_nll_se == doctest::Approx(0.2 * *summary.nll_se));
  CHECK(summary.kl_mean == doctest::Approx(1.005));
  CHECK(summary.kl_p99 == doctest::Approx(1.98));
  CHECK(summary.num_same_top == 150);
}

TEST_CASE("sums over a text: one token, and a token without probability") {
  const EvalSummary one = summarize(std::vector<TokenScore>{{.nll = 1.5, .kl = 0.25}});
  CHECK(one.nll == 1.5);
  CHECK_FALSE(one.nll_se.has_value());
  CHECK_FALSE(one.ppl_se.has_value());
  CHECK(one.kl_p99 == 0.25);
  const double infinity = std::numeric_limits<double>::infinity();
  const EvalSummary never = summarize(std::vector<TokenScore>{{.nll = 1}, {.nll = infinity}});
  CHECK(std::isinf(never.ppl));
  CHECK_FALSE(never.nll_se.has_value());
  CHECK_FALSE(never.ppl_se.has_value());
}

}  // namespace
}  // namespace llm
