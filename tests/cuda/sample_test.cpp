// The sampling kernel draws the ids that sample_row() draws, from rows of every kind.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "sample_rows_maker.h"

namespace llm {
namespace {

std::vector<Outcome> expected_outcomes(const std::vector<SampleCase>& cases) {
  std::vector<Outcome> outcomes;
  for (const SampleCase& one : cases) outcomes.push_back(expected_outcome(one));
  return outcomes;
}

/// Twice through the same scratch memory.
void check_cases(const std::vector<SampleCase>& cases, int width) {
  CAPTURE(width);
  const std::vector<Outcome> expected = expected_outcomes(cases);
  for_each_schedule([&] {
    SampleBatch batch(cases, width);
    for (int launch = 0; launch < 2; ++launch) {
      CAPTURE(launch);
      const std::vector<Outcome> outcomes = batch.sample();
      for (size_t i = 0; i < cases.size(); ++i) {
        CAPTURE(i);
        CHECK(outcomes[i] == expected[i]);
      }
    }
  });
}

std::vector<SampleCase> random_cases(uint32_t seed, int count, int width) {
  std::mt19937 random(seed);
  std::vector<SampleCase> cases;
  for (int i = 0; i < count; ++i) cases.push_back(random_case(random, width));
  return cases;
}

/// A case of these logits and parameters, without seen ids.
SampleCase plain_case(std::vector<float> logits, const SamplingParams& params) {
  SampleCase one;
  one.num_ids = static_cast<int64_t>(logits.size());
  one.logits = std::move(logits);
  one.params = params;
  return one;
}

TEST_CASE("cuda sample: as on the CPU, any logits, parameters and widths") {
  // The most rows once; the others are for what a width does.
  for (const auto& [width, count] :
       {std::pair(1, 8), {2, 8}, {31, 24}, {257, 64}, {4096, 24}, {4097, 16}, {9001, 24}}) {
    check_cases(random_cases(static_cast<uint32_t>(width), count, width), width);
  }
}

TEST_CASE("cuda sample: launches of other rows and widths share the scratch memory") {
  const std::vector<SampleCase> many = random_cases(21, 12, 5000);
  const std::vector<SampleCase> few = random_cases(22, 5, 4500);
  const std::vector<SampleCase> narrow = random_cases(23, 12, 100);
  for_each_schedule([&] {
    SampleBatch largest(many, 5000);
    SampleBatch smaller(few, 4500, largest.scratch());
    SampleBatch narrower(narrow, 100, largest.scratch());
    for (int launch = 0; launch < 2; ++launch) {
      CHECK((largest.sample() == expected_outcomes(many)));
      CHECK((smaller.sample() == expected_outcomes(few)));
      CHECK((narrower.sample() == expected_outcomes(narrow)));
    }
  });
}

TEST_CASE("cuda sample: a row of a large vocabulary") {
  constexpr int kWidth = 151936;
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 2.5f);
  std::vector<float> logits(kWidth);
  for (float& x : logits) x = normal(random);
  for (int i = 0; i < 40; ++i) logits[random() % kWidth] = 10 + normal(random) / 2;
  std::vector<SampleCase> cases;
  for (const SamplingParams& params :
       {SamplingParams{}, SamplingParams{.temperature = 0.7f, .top_k = 20, .top_p = 0.8f},
        SamplingParams{.temperature = 1}, SamplingParams{.temperature = 1, .top_p = 0.95f},
        SamplingParams{.temperature = 1, .top_k = 5000, .top_p = 0.999f, .min_p = 1e-5f},
        SamplingParams{.temperature = 1.5f, .top_k = 64, .repetition_penalty = 1.1f}}) {
    cases.push_back(plain_case(logits, params));
    cases.back().params.seed = random();
    cases.back().output_ids = {5, 151935, 5};
    cases.back().pending = true;
  }
  check_cases(cases, kWidth);
}

TEST_CASE("cuda sample: flat rows, whose ranks fit in shared memory or don't") {
  for (const int width : {3000, 6000}) {
    const std::vector<float> flat(static_cast<size_t>(width), -3.25f);
    std::vector<SampleCase> cases;
    for (uint64_t seed = 0; seed < 24; ++seed) {
      SamplingParams params{.temperature = 1, .seed = seed};
      params.top_k = seed % 3 == 1 ? width - 877 : 0;
      params.top_p = seed % 2 == 1 ? 0.83f : 1.0f;
      cases.push_back(plain_case(flat, params));
    }
    check_cases(cases, width);
  }
}

TEST_CASE("cuda sample: a slice's largest logits in one group of threads, in order, one a group") {
  constexpr int kWidth = 8192;
  std::vector<float> grouped(kWidth, -INFINITY), falling(kWidth), spread(kWidth, 0.0f);
  for (size_t i = 0; i < 8 * 32; i += 8) spread[i] = 1;
  for (int i = 0; i < kWidth; ++i) {
    if (i % 512 < 8) grouped[static_cast<size_t>(i)] = static_cast<float>(i % 7);
    falling[static_cast<size_t>(i)] = static_cast<float>(i) * -0.01f;
  }
  std::vector<SampleCase> cases;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (const int64_t k : {20, 64}) {
      const SamplingParams params{.temperature = 2, .top_k = k, .seed = seed};
      cases.push_back(plain_case(seed % 3 == 0   ? grouped
                                 : seed % 3 == 1 ? falling
                                                 : spread,
                                 params));
    }
  }
  check_cases(cases, kWidth);
}

TEST_CASE("cuda sample: more slices than the merge of candidates takes at once") {
  constexpr int kWidth = 70 * 4096 + 5;
  std::mt19937 random(12);
  std::vector<float> logits(kWidth);
  for (float& x : logits) x = static_cast<float>(random() % 100000) * 1e-4f;
  std::vector<SampleCase> cases;
  for (uint64_t seed = 0; seed < 2; ++seed) {
    cases.push_back(plain_case(logits, {.temperature = 3, .top_k = 64, .seed = seed}));
  }
  check_cases(cases, kWidth);
}

TEST_CASE("cuda sample: faults are the CPU's, by id, and leave a valid id") {
  constexpr int kWidth = 9000;
  std::vector<SampleCase> cases;
  for (const SamplingParams& params :
       {SamplingParams{}, SamplingParams{.temperature = 1},
        SamplingParams{.temperature = 1, .top_k = 20}, SamplingParams{.presence_penalty = 1}}) {
    const SampleCase fine = plain_case(std::vector<float>(kWidth, 1.0f), params);
    const auto add = [&](std::initializer_list<std::pair<int, float>> bad, int64_t num_ids) {
      SampleCase one = fine;
      for (const auto& [id, logit] : bad) one.logits[static_cast<size_t>(id)] = logit;
      one.num_ids = num_ids;
      one.output_ids = {8000};
      cases.push_back(one);
    };
    add({{8000, NAN}}, kWidth);
    add({{8000, -NAN}, {8001, INFINITY}}, kWidth);
    add({{4500, INFINITY}, {8000, NAN}}, kWidth);
    add({{8999, INFINITY}}, 100);  // of the padding
    add({}, 0);
    cases.push_back(fine);
    std::fill(cases.back().logits.begin(), cases.back().logits.begin() + 7000, -INFINITY);
    cases.back().num_ids = 7000;
  }
  for (const size_t i : {0, 1, 2, 3, 5}) CHECK(expected_outcome(cases[i]).error != "");
  check_cases(cases, kWidth);
}

TEST_CASE("cuda sample: penalties of any size stay finite, and a pending id counts once more") {
  std::vector<SampleCase> cases;
  for (const float huge : {3e38f, -3e38f}) {
    for (const float temperature : {0.0f, 1.0f}) {
      SampleCase one =
          plain_case({2, -3e38f, 1, -INFINITY, 3e38f, 0.5f}, {.temperature = temperature,
                                                              .repetition_penalty = 1e-30f,
                                                              .presence_penalty = huge,
                                                              .frequency_penalty = huge});
      one.prompt_ids = {1, 3, 2};
      one.output_ids = {0, 4, 3, 1, 0};
      one.pending = true;
      cases.push_back(one);
    }
  }
  // Id 0 is drawn unless the pending one counts: 2 - 0.9 > 0.5 > 2 - 1.8.
  for (const bool listed : {false, true}) {
    SampleCase one = plain_case({2, 0.5f, -1, -1, -1, -1}, {});
    one.params.frequency_penalty = listed ? 0.9f : 1.8f;
    one.output_ids = {5, 0};
    if (listed) one.output_ids.push_back(0);
    one.pending = true;
    CHECK(expected_outcome(one).id == 1);
    cases.push_back(one);
  }
  check_cases(cases, 6);
}

TEST_CASE("cuda sample: no rows, and what can't be served") {
  SampleArgs args;
  CHECK_NOTHROW(launch_sample(args, nullptr));
  CHECK_NOTHROW(launch_logprobs(nullptr, args, nullptr));
  for (const auto& [rows, width] :
       {std::pair(1, 0), {-1, 8}, {kMaxSampleRows + 1, 8}, {1, (1 << 22) + 1}}) {
    args.num_rows = rows;
    args.width = width;
    CHECK_THROWS(launch_sample(args, nullptr));
    CHECK_THROWS(launch_logprobs(nullptr, args, nullptr));
  }
}

// ---- Log-probabilities ----

/// As cuda/sample_rows.h says; the last term for what double rounds.
double allowed_difference(int width, double logprob) {
  return 0x1p-22 * (2 + std::log2(width)) + width * 0x1p-39 + 1e-14 * std::abs(logprob);
}

bool agree(const TokenLogprob& a, const TokenLogprob& b, int width) {
  return a.id == b.id && (a.logprob == b.logprob ||
                          std::abs(a.logprob - b.logprob) <= allowed_difference(width, b.logprob));
}

TEST_CASE("cuda logprobs: as on the CPU, of rows that want them") {
  for (const int width : {1, 31, 4096, 9001}) {
    CAPTURE(width);
    const std::vector<SampleCase> cases = random_cases(static_cast<uint32_t>(width), 16, width);
    std::vector<int32_t> num_top;
    for (size_t i = 0; i < cases.size(); ++i) {
      num_top.push_back(std::vector<int32_t>{-1, 0, 1, 5, 20}[i % 5]);
    }
    for_each_schedule([&] {
      SampleBatch batch(cases, width);
      const std::vector<Outcome> outcomes = batch.sample();
      const std::vector<RowLogprobs> rows = batch.logprobs(num_top);
      CHECK(batch.sample() == outcomes);  // the scratch memory is left as it was
      for (size_t i = 0; i < cases.size(); ++i) {
        CAPTURE(i);
        if (num_top[i] < 0) {
          CHECK(rows[i].total == 0x5555555555555555);  // untouched
          continue;
        }
        const int32_t id = outcomes[i].id;
        const auto expected = logprobs_of(cases[i].logits, id, num_top[i]);
        const auto got = logprobs_of(rows[i], id, num_top[i], width);
        CHECK(agree(got.chosen, expected.chosen, width));
        REQUIRE(got.top.size() == expected.top.size());
        for (size_t j = 0; j < got.top.size(); ++j) {
          CHECK(agree(got.top[j], expected.top[j], width));
        }
      }
    });
  }
}

}  // namespace
}  // namespace llm
