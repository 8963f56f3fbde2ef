#include <doctest/doctest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "model/model_config.h"

using namespace llm;

namespace {

// Expected values come from the formulas in double precision (a script outside this program). The
// program computes in float32, as the reference does: a few roundings of 6e-8 each.
void check_pairs(const RopeConfig& rope, int64_t head_dim,
                 const std::vector<std::pair<size_t, double>>& expected) {
  const std::vector<float> inv_freq = rope_inv_freq(rope, head_dim);
  REQUIRE(inv_freq.size() == static_cast<size_t>(head_dim / 2));
  for (const auto& item : expected) {
    const size_t pair = item.first;
    INFO("pair ", pair);
    CHECK(std::abs(inv_freq[pair] / item.second - 1) < 1e-6);
  }
}

RopeConfig parsed(const std::string& rope_scaling, double theta) {
  const std::string json =
      "{\"architectures\": [\"Qwen3ForCausalLM\"], \"vocab_size\": 8, \"hidden_size\": 8, "
      "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 1, "
      "\"max_position_embeddings\": 40960, \"rope_theta\": " +
      std::to_string(theta) + ", \"rope_scaling\": " + rope_scaling + "}";
  return parse_model_config(json, "config.json").rope;
}

}  // namespace

TEST_CASE("rope: default frequencies fall from 1 by powers of theta") {
  RopeConfig rope;
  rope.theta = 1e6;
  check_pairs(rope, 128, {{0, 1.0}, {32, 1e-3}, {16, std::pow(10.0, -1.5)}});
  rope.theta = 10000;
  check_pairs(rope, 8, {{0, 1.0}, {1, 0.1}, {2, 0.01}, {3, 0.001}});
}

TEST_CASE("rope: linear divides every frequency") {
  RopeConfig rope = parsed("{\"type\": \"linear\", \"factor\": 8.0}", 10000);
  check_pairs(rope, 8, {{0, 0.125}, {1, 0.0125}, {2, 0.00125}, {3, 0.000125}});
  CHECK(rope.attention_factor == 1.0);
}

TEST_CASE("rope: yarn uses the given factor and original length (R1)") {
  // max_position_embeddings is 40960 here: 40960 / 32768 must not become the factor.
  const RopeConfig rope = parsed(
      "{\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 32768}",
      1e6);
  check_pairs(rope, 128,
              {{0, 1.0},
               {23, 0.00697830585},
               {24, 0.00537532149},
               {30, 0.00106436098},
               {39, 6.49039432e-05},
               {40, 4.44569853e-05},
               {63, 3.1023444e-07}});
  CHECK(std::abs(rope.attention_factor - 1.13863) < 5e-6);
}

TEST_CASE("rope: yarn's other keys") {
  const RopeConfig rope = parsed(
      "{\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 32768, "
      "\"truncate\": false}",
      1e6);
  check_pairs(rope, 128,
              {{23, 0.00697830585}, {24, 0.00551727048}, {30, 0.00107923774}, {39, 6.1878068e-05}});

  CHECK(parsed("{\"type\": \"yarn\", \"factor\": 4, \"attention_factor\": 1.5}", 1e6)
            .attention_factor == 1.5);
  CHECK(parsed("{\"type\": \"yarn\", \"factor\": 1}", 1e6).attention_factor == 1.0);
  // Missing original length: max_position_embeddings.
  CHECK(parsed("{\"type\": \"yarn\", \"factor\": 4}", 1e6).original_max_position_embeddings ==
        40960);
  // Both mscale keys: (0.1 * 0.5 * ln 4 + 1) / (0.1 * 2 * ln 4 + 1).
  const double both =
      parsed("{\"type\": \"yarn\", \"factor\": 4, \"mscale\": 0.5, \"mscale_all_dim\": 2}", 1e6)
          .attention_factor;
  CHECK(std::abs(both - 1.0693147180559945 / 1.2772588722239781) < 1e-12);
}

TEST_CASE("rope: yarn where fast and slow meet doesn't divide by zero") {
  // Both corrections fall on the last pair's bound for such a short original length.
  const RopeConfig rope =
      parsed("{\"type\": \"yarn\", \"factor\": 2, \"original_max_position_embeddings\": 1}", 10000);
  for (const float f : rope_inv_freq(rope, 8)) CHECK(std::isfinite(f));
}

TEST_CASE("rope: llama3 keeps short waves, divides long ones, blends between") {
  const RopeConfig rope = parsed(
      "{\"rope_type\": \"llama3\", \"factor\": 32.0, \"original_max_position_embeddings\": 8192, "
      "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0}",
      5e5);
  check_pairs(rope, 64,
              {{0, 1.0},
               {1, 0.663601238},
               {14, 0.00321144599},
               {15, 0.00129054793},
               {16, 0.000429556797},
               {17, 9.7082878e-05},
               {18, 1.94616382e-05},
               {31, 9.41830673e-08}});
  const RopeConfig named = named_model_config("llama3.2-1b")->rope;
  CHECK(rope_inv_freq(named, 64) == rope_inv_freq(rope, 64));
}
