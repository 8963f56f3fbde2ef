// Choosing the next token: the random stream, each parameter, their order and their scopes.
#include "backend/sampling.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"

namespace llm {
namespace {

using Ids = std::vector<int32_t>;
using Logits = std::vector<float>;

int32_t sample(const Logits& logits, const SamplingParams& params, const Ids& prompt = {},
               const Ids& output = {}) {
  return id_of(sample_row(logits, {&params, prompt, output, static_cast<int64_t>(logits.size())}));
}

/// Share of each id over `draws` seeds.
std::map<int32_t, double> shares(const Logits& logits, SamplingParams params, int draws,
                                 const Ids& prompt = {}, const Ids& output = {}) {
  std::map<int32_t, double> result;
  for (int i = 0; i < draws; ++i) {
    params.seed = static_cast<uint64_t>(i);
    result[sample(logits, params, prompt, output)] += 1.0 / draws;
  }
  return result;
}

std::set<int32_t> possible(const Logits& logits, const SamplingParams& params) {
  std::set<int32_t> ids;
  for (const auto& [id, share] : shares(logits, params, 400)) ids.insert(id);
  return ids;
}

TEST_CASE("philox4x32: published known answers") {
  using Block = std::array<uint32_t, 4>;
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const uint32_t ones = 0xffffffff;
  CHECK(philox4x32({ones, ones, ones, ones}, {ones, ones}) ==
        Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("uniform: in [0, 1), a function of seed and counter") {
  // 0x6627e8d5e169c58d >> 11, times 2^-53
  CHECK(uniform(0, 0) == 0x1.989fa35785a70p-2);
  double sum = 0;
  for (uint64_t i = 0; i < 10000; ++i) {
    const double u = uniform(7, i);
    CHECK((u >= 0 && u < 1));
    sum += u;
  }
  CHECK(std::abs(sum / 10000 - 0.5) < 0.012);  // 4 standard errors
  CHECK(uniform(1, 0) != uniform(0, 0));
  CHECK(uniform(0, 1) != uniform(0, 0));
  CHECK(uniform(uint64_t{1} << 32, 0) != uniform(0, 0));
  CHECK(uniform(0, uint64_t{1} << 32) != uniform(0, 0));
}

TEST_CASE("temperature 0 is arg-max, the lowest id on a tie, whatever else is set") {
  const Logits logits = {1, 3, 3, 2};
  for (uint64_t seed = 0; seed < 5; ++seed) {
    CHECK(sample(logits, {.temperature = 0, .top_k = 3, .top_p = 0.5f, .seed = seed}) == 1);
  }
}

TEST_CASE("top-k 0 and -1 are off, 1 is greedy, ties keep the lower id") {
  const Logits logits = {1, 1.5f, 1.5f, 0.5f};
  CHECK(possible(logits, {.temperature = 1, .top_k = 0}) == std::set<int32_t>{0, 1, 2, 3});
  CHECK(possible(logits, {.temperature = 1, .top_k = -1}) == std::set<int32_t>{0, 1, 2, 3});
  CHECK(possible(logits, {.temperature = 1, .top_k = 1}) == std::set<int32_t>{1});
  CHECK(possible(logits, {.temperature = 1, .top_k = 2}) == std::set<int32_t>{1, 2});
  CHECK(possible({2, 2, 2, 2}, {.temperature = 1, .top_k = 2}) == std::set<int32_t>{0, 1});
  CHECK(possible(logits, {.temperature = 1, .top_k = 100}).size() == 4);
}

TEST_CASE("temperature comes before top-p") {
  const Logits logits = {3, 2, 1};
  // T = 0.5: 0.8668 reaches 0.8 alone. T = 1: 0.6652 doesn't, 0.6652 + 0.2447 does.
  CHECK(possible(logits, {.temperature = 0.5f, .top_p = 0.8f}) == std::set<int32_t>{0});
  CHECK(possible(logits, {.temperature = 1, .top_p = 0.8f}) == std::set<int32_t>{0, 1});
}

TEST_CASE("temperature comes before min-p") {
  // Ratios to the most probable: exp(-1 / T) = 0.368 at T = 1, 0.135 at T = 0.5.
  CHECK(possible({3, 2}, {.temperature = 1, .min_p = 0.2f}).size() == 2);
  CHECK(possible({3, 2}, {.temperature = 0.5f, .min_p = 0.2f}).size() == 1);
}

TEST_CASE("top-p counts shares of what top-k kept") {
  // Probabilities 0.4, 0.3, 0.2, 0.1; of the first three the first two have 0.7 / 0.9 = 0.78.
  const Logits logits = {std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};
  CHECK(possible(logits, {.temperature = 1, .top_p = 0.75f}).size() == 3);
  CHECK(possible(logits, {.temperature = 1, .top_k = 3, .top_p = 0.75f}).size() == 2);
}

TEST_CASE("top-p over a long tail keeps exactly the fewest") {
  // 2000 equal ids: the fewest that reach 0.9 are 1800, past the first partial sorts.
  const Logits logits(2000, 0.25f);
  std::set<int32_t> seen;
  SamplingParams params{.temperature = 1, .top_p = 0.9f};
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    params.seed = seed;
    seen.insert(sample(logits, params));
  }
  CHECK(*seen.rbegin() < 1801);  // p is the float nearest to 0.9
  CHECK(seen.size() > 1700);
}

TEST_CASE("draws follow the renormalised probabilities") {
  const Logits logits = {std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};
  const int draws = 20000;
  auto all = shares(logits, {.temperature = 1}, draws);
  auto kept = shares(logits, {.temperature = 1, .top_k = 2}, draws);
  const auto near = [&](double share, double p) {
    return std::abs(share - p) < 4 * std::sqrt(p * (1 - p) / draws);
  };
  CHECK(near(all[0], 0.4));
  CHECK(near(all[1], 0.3));
  CHECK(near(all[2], 0.2));
  CHECK(near(all[3], 0.1));
  CHECK(near(kept[0], 4.0 / 7));
  CHECK(near(kept[1], 3.0 / 7));
}

TEST_CASE("repetition penalty covers prompt and output, once per id") {
  // Logits 2, -1, 0.5 with ids 0 and 1 seen and penalty 2 become 1, -2, 0.5.
  const SamplingParams params{.temperature = 1, .repetition_penalty = 2};
  const double e = std::exp(1.0) + std::exp(-2.0) + std::exp(0.5);
  const int draws = 20000;
  for (const bool in_output : {false, true}) {
    const Ids seen = {0, 1, 0};
    auto got =
        shares({2, -1, 0.5f}, params, draws, in_output ? Ids{} : seen, in_output ? seen : Ids{});
    CHECK(std::abs(got[0] - std::exp(1.0) / e) < 0.015);
    CHECK(std::abs(got[1] - std::exp(-2.0) / e) < 0.008);
    CHECK(std::abs(got[2] - std::exp(0.5) / e) < 0.015);
  }
  CHECK(sample({2, 1.5f}, {.repetition_penalty = 2}, {0}) == 1);
  CHECK(sample({-2, -3}, {.repetition_penalty = 2}, {0}) == 1);
}

TEST_CASE("presence and frequency penalties cover the output only") {
  CHECK(sample({2, 1.5f}, {.presence_penalty = 1}, {0, 0}) == 0);
  CHECK(sample({2, 1.5f}, {.repetition_penalty = 1.1f, .presence_penalty = 1}, {0, 0}) == 0);
  CHECK(sample({2, 1.5f}, {.frequency_penalty = 1}, {0, 0}) == 0);
  CHECK(sample({2, 1.5f}, {.presence_penalty = 1}, {}, {0}) == 1);
  CHECK(sample({2, 0.5f}, {.presence_penalty = 1}, {}, {0, 0, 0}) == 0);  // once
  CHECK(sample({2, 0.5f}, {.frequency_penalty = 1}, {}, {0, 0}) == 1);    // twice
  CHECK(sample({2, 0.5f}, {.frequency_penalty = 1}, {}, {0}) == 0);       // 2 - 1 > 0.5
}

TEST_CASE("ids from num_ids on are never drawn") {
  const Logits logits = {0, 1, 9, 9};
  for (const float temperature : {0.0f, 1.0f}) {
    for (uint64_t seed = 0; seed < 100; ++seed) {
      const SamplingParams params{.temperature = temperature, .seed = seed};
      CHECK(id_of(sample_row(logits, {&params, {}, {}, 2})) < 2);
    }
  }
}

TEST_CASE("masked ids are never drawn, and logits of any size are stable") {
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(possible({-inf, 0, -inf, 0}, {.temperature = 1}) == std::set<int32_t>{1, 3});
  CHECK(possible({3e38f, -3e38f}, {.temperature = 1e-30f}) == std::set<int32_t>{0});
  CHECK(possible({1000, 999}, {.temperature = 1}).size() == 2);
}

TEST_CASE("logits without a possible token are an error") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float temperature : {0.0f, 1.0f}) {
    const SamplingParams params{.temperature = temperature};
    CHECK_THROWS_AS(sample({1, nan, 2}, params), Error);
    CHECK_THROWS_AS(sample({1, inf, 2}, params), Error);
    CHECK_THROWS_AS(sample({-inf, -inf}, params), Error);
    const Logits padding_only = {-inf, 5};
    CHECK_THROWS_AS(id_of(sample_row(padding_only, {&params, {}, {}, 1})), Error);
  }
}

TEST_CASE("the draw depends on the seed and the number of tokens before it") {
  const Logits logits(50, 0.0f);
  const SamplingParams params{.temperature = 1, .seed = 42};
  CHECK(sample(logits, params, {1, 2}, {3}) == sample(logits, params, {9}, {4}));
  std::set<int32_t> by_position;
  for (size_t n = 0; n < 20; ++n) by_position.insert(sample(logits, params, {}, Ids(n, 0)));
  CHECK(by_position.size() > 5);
}

TEST_CASE("parameters out of range are refused by name") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK_NOTHROW(validate({}));
  CHECK_NOTHROW(validate({.temperature = 2, .top_k = -1, .top_p = 1, .min_p = 1}));
  CHECK_THROWS_WITH_AS(validate({.temperature = -1}), doctest::Contains("temperature"), Error);
  CHECK_THROWS_WITH_AS(validate({.temperature = nan}), doctest::Contains("temperature"), Error);
  CHECK_THROWS_WITH_AS(validate({.top_k = -2}), doctest::Contains("top_k"), Error);
  CHECK_THROWS_WITH_AS(validate({.top_p = 0}), doctest::Contains("top_p"), Error);
  CHECK_THROWS_WITH_AS(validate({.top_p = 1.5f}), doctest::Contains("top_p"), Error);
  CHECK_THROWS_WITH_AS(validate({.min_p = -0.1f}), doctest::Contains("min_p"), Error);
  CHECK_THROWS_WITH_AS(validate({.repetition_penalty = 0}), doctest::Contains("repetition_penalty"),
                       Error);
  CHECK_THROWS_WITH_AS(validate({.presence_penalty = nan}), doctest::Contains("presence"), Error);
  CHECK_THROWS_WITH_AS(validate({.frequency_penalty = nan}), doctest::Contains("frequency"), Error);
}

}  // namespace
}  // namespace llm
