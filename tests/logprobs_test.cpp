// Log-probabilities: of one row against long double, and of requests in the engine.
#include "backend/logprobs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "counting_backend.h"
#include "engine/engine.h"
#include "engine/speculative.h"

namespace llm {
namespace {

using Ids = std::vector<int32_t>;
using Row = std::vector<float>;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

/// log(softmax(row)), the straightforward way in a wider type.
std::vector<long double> reference(const Row& row) {
  const long double largest = *std::max_element(row.begin(), row.end());
  long double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<long double>(x) - largest);
  std::vector<long double> result;
  for (const float x : row) result.push_back(x - largest - std::log(sum));
  return result;
}

/// Ids by logit, the lower first on a tie, from a sort of all.
Ids sorted_ids(const Row& row) {
  Ids ids(row.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
  });
  return ids;
}

void check_row(const Row& row) {
  const std::vector<long double> expected = reference(row);
  const Ids sorted = sorted_ids(row);
  const auto check = [&](const TokenLogprob& token) {
    const auto value = static_cast<double>(expected[static_cast<size_t>(token.id)]);
    const bool equal = token.logprob == value;  // also where both are infinite
    CHECK((equal || std::abs(token.logprob - value) <= 1e-12 * std::max(1.0, std::abs(value))));
  };
  for (const int64_t k : {0, 1, 3, 20, 100000}) {
    const int32_t id = sorted[static_cast<size_t>(k) % row.size()];
    const GeneratedLogprobs result = logprobs_of(row, id, k);
    CHECK(result.chosen.id == id);
    check(result.chosen);
    REQUIRE(result.top.size() == std::min(static_cast<size_t>(k), row.size()));
    for (size_t i = 0; i < result.top.size(); ++i) {
      CHECK(result.top[i].id == sorted[i]);
      check(result.top[i]);
    }
  }
}

TEST_CASE("logprobs of a row: as in long double, random sizes, offsets and scales") {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const float scale : {0.0f, 1e-3f, 1.0f, 30.0f, 1e4f}) {
    for (const float offset : {0.0f, 1e4f, -1e4f}) {
      for (const size_t size : {1, 2, 17, 1000}) {
        CAPTURE(scale);
        CAPTURE(offset);
        CAPTURE(size);
        Row row(size);
        for (float& x : row) x = offset + scale * normal(random);
        check_row(row);
      }
    }
  }
}

TEST_CASE("logprobs of a row: far apart, and with minus infinity") {
  const Row far = {0.0f, 1e4f, -1e4f, kMinusInfinity, 1e4f};
  CHECK(log_sum_exp(far) == doctest::Approx(1e4 + std::log(2.0)).epsilon(1e-14));
  check_row(far);
  const GeneratedLogprobs last = logprobs_of(far, 3, 1);
  CHECK(last.chosen.logprob == -std::numeric_limits<double>::infinity());
  CHECK(last.top[0].id == 1);
  Row masked(50, kMinusInfinity);
  masked[31] = -7.0f;
  check_row(masked);
  CHECK(logprobs_of(masked, 31, 0).chosen.logprob == 0.0);
}

TEST_CASE("logprobs of a row: the lower id on a tie") {
  std::mt19937 random(6);
  for (int i = 0; i < 50; ++i) {
    Row row(1 + random() % 60);
    for (float& x : row) x = static_cast<float>(random() % 4);
    check_row(row);
  }
}

// ---- In the engine ----

/// The counting model's logit is 10 for the next number and 0 for the other 99.
double counting_logprob(bool next) { return (next ? 10.0 : 0.0) - std::log(std::exp(10.0) + 99.0); }

Request counting_request(int32_t first, int64_t length, int64_t max_tokens) {
  Request request;
  for (int64_t i = 0; i < length; ++i)
    request.prompt_ids.push_back(static_cast<int32_t>((first + i) % 100));
  request.max_tokens = max_tokens;
  request.num_ids = 100;
  request.num_logprobs = 2;
  return request;
}

void check_counting(const Sequence& sequence) {
  REQUIRE(std::ssize(sequence.logprobs()) == sequence.output_length());
  for (size_t i = 0; i < sequence.logprobs().size(); ++i) {
    const GeneratedLogprobs& token = sequence.logprobs()[i];
    const auto before = static_cast<size_t>(sequence.prompt_length()) + i - 1;
    const int32_t next = (sequence.ids()[before] + 1) % 100;
    CHECK(token.chosen.id == sequence.output_ids()[i]);
    CHECK(token.chosen.logprob == doctest::Approx(counting_logprob(token.chosen.id == next)));
    REQUIRE(token.top.size() == 2);
    CHECK(token.top[0].id == next);
    CHECK(token.top[0].logprob == doctest::Approx(counting_logprob(true)));
    CHECK(token.top[1].id == (next == 0 ? 1 : 0));
  }
}

TEST_CASE("logprobs in the engine: one entry per id, through preemption and speculation") {
  for (const int64_t max_proposals : {0, 5}) {
    CAPTURE(max_proposals);
    CountingModel model(256);
    SchedulerOptions scheduler{.context = 256, .max_num_seqs = 4, .max_proposals = max_proposals};
    scheduler.fit_batched_tokens();
    Engine engine(model.decoder(), {.scheduler = scheduler, .num_cache_tokens = 24 * kKvBlockSize},
                  max_proposals > 0 ? std::make_unique<NgramProposer>() : nullptr);
    std::vector<std::shared_ptr<const Sequence>> all;
    // The first has gone through all numbers, so that look-up is right.
    for (const int64_t length : {110, 20, 3, 61}) {
      all.push_back(engine.add(counting_request(static_cast<int32_t>(length), length, 120)));
    }
    while (engine.has_work()) engine.step();
    CHECK(engine.scheduler().num_preemptions() > 0);
    for (const auto& sequence : all) {
      CHECK(sequence->output_length() == 120);
      check_counting(*sequence);
    }
    CHECK((all[0]->num_accepted() > 0) == (max_proposals > 0));
  }
}

TEST_CASE("logprobs in the engine: a forced id has its own, no request no logprobs") {
  CountingModel model(64);
  Engine engine(model.decoder(), {.scheduler = {.context = 64}, .num_cache_tokens = 64});
  Request request = counting_request(5, 3, 4);
  request.on_sampled = [](int32_t sampled) { return sampled == 9 ? 50 : sampled; };
  const auto forced = engine.add(request);
  Request silent = counting_request(5, 3, 4);
  silent.num_logprobs.reset();
  const auto without = engine.add(silent);
  while (engine.has_work()) engine.step();
  CHECK(Ids(forced->output_ids().begin(), forced->output_ids().end()) == Ids{8, 50, 51, 52});
  check_counting(*forced);
  CHECK(forced->logprobs()[1].chosen.logprob == doctest::Approx(counting_logprob(false)));
  CHECK(without->logprobs().empty());
}

}  // namespace
}  // namespace llm
