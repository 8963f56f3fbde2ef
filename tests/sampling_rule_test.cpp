// The arithmetic of a draw: against double, against wider integers, and its order.
#include "backend/sampling_rule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/most_probable.h"
#include "backend/sampling.h"

namespace llm {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

TEST_CASE("weights: the exponential in double within the stated error, never rising as it falls") {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform_in(0, 1);
  for (const float temperature : {0.01f, 0.3f, 0.7f, 1.0f, 2.5f, 100.0f}) {
    for (const float largest : {0.0f, -3.7f, 17.25f, 1000.0f}) {
      CAPTURE(temperature);
      CAPTURE(largest);
      const float octaves = draw_rule({.temperature = temperature}).octaves;
      CHECK(draw::weight_of(largest, largest, octaves) == draw::kLargestWeight);
      std::vector<float> logits;
      for (int i = 0; i < 4000; ++i) {
        const float scale = i % 2 ? 45 * temperature : temperature;
        logits.push_back(largest - scale * uniform_in(random));
      }
      // Around the steps of an octave, where the fraction starts again.
      for (int octave = 1; octave < 44; ++octave) {
        float x = largest - static_cast<float>(octave) * 0.6931472f * temperature;
        for (int i = 0; i < 4; ++i) x = std::nextafter(x, INFINITY);
        for (int i = 0; i < 8; ++i) logits.push_back(x = std::nextafter(x, -INFINITY));
      }
      std::sort(logits.begin(), logits.end());
      uint64_t last = 0;
      for (const float logit : logits) {
        const uint64_t weight = draw::weight_of(logit, largest, octaves);
        CHECK(weight >= last);
        last = weight;
        const double exponent = (double{logit} - double{largest}) / double{temperature};
        const double exact = std::ldexp(std::exp(exponent), draw::kWeightBits);
        const double allowed = 0x1p-22 * (1 - exponent * 1.4427) * exact + 1;
        CHECK(std::abs(static_cast<double>(weight) - exact) <= allowed);
      }
    }
  }
}

TEST_CASE("weights: where numbers end") {
  const float most = std::numeric_limits<float>::max();
  CHECK(draw::weight_of(kMinusInfinity, 3, 1) == 0);
  CHECK(draw::weight_of(-most, most, 1) == 0);
  CHECK(draw::weight_of(NAN, 3, 1) == 0);
  CHECK(draw::weight_of(-0.0f, 0.0f, 1) == draw::kLargestWeight);
  CHECK(draw::weight_of(0.0f, -0.0f, 1) == draw::kLargestWeight);
  // At a temperature next to 0, a tie is one and all else is nothing; at the largest all are equal.
  const float cold = draw_rule({.temperature = 1e-45f}).octaves;
  CHECK(draw::weight_of(2, 2, cold) == draw::kLargestWeight);
  CHECK(draw::weight_of(1.9999999f, 2, cold) == 0);
  const float hot = draw_rule({.temperature = most}).octaves;
  CHECK(hot > 0);
  CHECK(draw::weight_of(-1000, 1000, hot) >= draw::kLargestWeight - 1);
}

TEST_CASE("bins: quarters of octaves, in the order of weights") {
  CHECK(draw::bin_of(0) == 0);
  CHECK(draw::bin_of(1) == 0);
  CHECK(draw::bin_of(4) == 8);
  CHECK(draw::bin_of(5) == 9);
  CHECK(draw::bin_of(7) == 11);
  CHECK(draw::bin_of(8) == 12);
  CHECK(draw::bin_of(draw::kLargestWeight) == draw::kWeightBins - 4);
  for (uint64_t weight = 0; weight < 5000; ++weight) {
    CHECK(draw::bin_of(weight) <= draw::bin_of(weight + 1));
  }
}

TEST_CASE("ranks: by logit, then the lower id; and back") {
  const std::vector<float> falling = {std::numeric_limits<float>::max(),
                                      1,
                                      1e-45f,
                                      0,
                                      -1e-45f,
                                      -1,
                                      -std::numeric_limits<float>::max(),
                                      kMinusInfinity};
  uint64_t last = ~uint64_t{0};
  for (const float logit : falling) {
    for (const int32_t id : {0, 1, 4000000}) {
      const uint64_t rank = draw::rank_of(logit, id);
      CHECK(rank < last);
      CHECK(rank > 0);
      CHECK(draw::id_of(rank) == id);
      CHECK(draw::logit_of(rank) == logit);
      last = rank;
    }
  }
  CHECK(draw::rank_of(-0.0f, 7) == draw::rank_of(0.0f, 7));
}

TEST_CASE("most_probable: as a sort of all, however many") {
  std::mt19937 random(2);
  for (const size_t size : {1, 2, 600, 3000}) {
    std::vector<float> logits(size);
    for (float& x : logits) x = static_cast<float>(random() % 500) - 250;
    std::vector<uint64_t> sorted;
    for (size_t i = 0; i < size; ++i) {
      sorted.push_back(draw::rank_of(logits[i], static_cast<int32_t>(i)));
    }
    std::sort(sorted.rbegin(), sorted.rend());
    for (const size_t most : {0, 1, 20, 512, 513, 2999, 5000}) {
      CHECK(most_probable(logits, most) ==
            std::vector<uint64_t>(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(
                                                                       std::min(most, size))));
    }
  }
}

TEST_CASE("products of 64 bits: the high half, shares rounded up, targets below the total") {
  using Wide = unsigned __int128;
  std::mt19937_64 random(3);
  for (int i = 0; i < 10000; ++i) {
    const uint64_t a = random() >> random() % 64;
    const uint64_t b = random() >> random() % 64;
    CHECK(draw::multiply_high(a, b) == static_cast<uint64_t>(Wide{a} * b >> 64));
    const uint64_t wanted = draw::wanted_weight(a, b);
    CHECK((Wide{wanted} << 64) >= Wide{a} * b);
    CHECK((wanted == 0 || (Wide{wanted - 1} << 64) < Wide{a} * b));
    const uint64_t bits = a >> 11;
    CHECK(draw::target_of(bits, b) == static_cast<uint64_t>(Wide{bits} * b >> 53));
  }
  CHECK(draw::multiply_high(~uint64_t{0}, ~uint64_t{0}) == ~uint64_t{0} - 1);
}

TEST_CASE("draw_rule: shares and least weights in units of a draw") {
  const DrawRule rule = draw_rule({.temperature = 1, .top_k = -1, .top_p = 0.5f, .min_p = 0.25f});
  CHECK(rule.top_k == 0);
  CHECK(rule.top_p == uint64_t{1} << 63);
  CHECK(rule.min_p == draw::kLargestWeight / 4);
  CHECK(draw_rule({.temperature = 1, .top_k = int64_t{1} << 40}).top_k == INT32_MAX);
  CHECK(draw_rule({.temperature = 1}).top_p == 0);
  CHECK(draw_rule({.temperature = 1, .top_p = 1e-38f}).top_p == 1);
  CHECK(draw_rule({.temperature = 1, .min_p = 1}).min_p == draw::kLargestWeight);
  CHECK(draw_rule({.temperature = 1}).min_p == 1);
  CHECK(draw_rule({}).octaves == 0);
  CHECK(draw_rule({.temperature = 1, .top_k = 1}).octaves == 0);
}

TEST_CASE("penalties stay finite, and minus infinity stays") {
  const float most = std::numeric_limits<float>::max();
  CHECK(draw::penalised(3, 2, {2, 0.5f, 0.25f}) == 0.5f);
  CHECK(draw::penalised(-3, 0, {2, 0.5f, 0.25f}) == -6);
  CHECK(draw::penalised(kMinusInfinity, 3, {1e-30f, -most, -most}) == kMinusInfinity);
  CHECK(draw::penalised(most, 1, {1e-30f, 0, 0}) == most);
  CHECK(draw::penalised(-most, 1, {2, most, most}) == -most);
  CHECK(draw::penalised(1, 2, {1, most, most}) == -most);
  CHECK(draw::penalised(1, 2, {1, -most, -most}) == most);
}

}  // namespace
}  // namespace llm
