// Whole models against reference logits: the shared fixtures, our own goldens, a real model.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "golden_model.h"
#include "model_fixtures.h"
#include "model_harness.h"
#include "test_data.h"

namespace llm {
namespace {

using Json = nlohmann::json;

}  // namespace

TEST_CASE("plain fixtures: float32 logits and greedy continuation") {
  LLM_SKIP_WITHOUT_DATA("plain fixtures, f32");
  for (const char* name : kPlainFixtures) check_float32(shared_data() / "fixtures" / name);
}

TEST_CASE("plain fixtures: 16-bit activations stay within 1.5 times the reference's own") {
  LLM_SKIP_WITHOUT_DATA("plain fixtures, bf16");
  for (const char* name : kPlainFixtures) check_bf16(shared_data() / "fixtures" / name);
}

TEST_CASE("own goldens: long prompts, other head groups, biases, rope types") {
  for (const std::string& name : golden_model_names()) {
    const GoldenModel golden = load_golden_model(name);
    Logits expected;
    for (const std::vector<float>& row : golden.logits) {
      expected.insert(expected.end(), row.begin(), row.end());
    }
    for (Isa isa : supported_isas()) {
      CAPTURE(name);
      CAPTURE(name_of(isa));
      RunningModel model(golden.dir, {.isa = isa});
      const size_t width = static_cast<size_t>(model.config().vocab_size);
      const Logits all = model.logits(golden.input_ids);
      const double limit = 1e-3 * (double{golden.logit_max} - double{golden.logit_min});
      CHECK(difference(at_positions(all, golden.positions, width), expected).max <= limit);
      for (size_t t = 0; t < golden.argmax.size(); ++t) {
        const std::span<const float> row(all.data() + t * width, width);
        const double top = *std::max_element(row.begin(), row.end());
        double sum = 0;
        for (float x : row) sum += std::exp(double{x} - top);
        REQUIRE(std::abs(top + std::log(sum) - double{golden.lse[t]}) <= limit);
        if (golden.margin[t] > 2 * limit) REQUIRE(arg_max(row) == golden.argmax[t]);
      }
      CHECK(model.greedy(golden.input_ids, static_cast<int64_t>(golden.greedy.size())) ==
            golden.greedy);

      RunningModel bf16(golden.dir, {.isa = isa, .act = ActDType::kBF16, .kv_dtype = DType::kBF16});
      const Difference d = difference(
          at_positions(bf16.logits(golden.input_ids), golden.positions, width), expected);
      CHECK(d.max <= 1.5 * double{golden.bf16_max_abs_diff});
      CHECK(d.mean <= 1.5 * double{golden.bf16_mean_abs_diff});
    }
  }
}

TEST_CASE("prefill at once, token by token and in any split give the same bits") {
  for (const std::string& name : golden_model_names()) {
    const GoldenModel golden = load_golden_model(name);
    const int64_t tokens = static_cast<int64_t>(golden.input_ids.size());
    const std::vector<int64_t> single(static_cast<size_t>(tokens), 1);
    const std::vector<int64_t> uneven = {1, 2, 15, 16, 17, 33, tokens - 84};
    for (Isa isa : supported_isas()) {
      for (ActDType act : {ActDType::kF32, ActDType::kBF16}) {
        CAPTURE(name);
        CAPTURE(name_of(isa));
        const DType kv = act == ActDType::kF32 ? DType::kF32 : DType::kBF16;
        RunningModel model(golden.dir, {.isa = isa, .act = act, .kv_dtype = kv});
        const Logits whole = model.logits(golden.input_ids);
        CHECK(same_bits(whole, model.logits(golden.input_ids, uneven)));
        CHECK(same_bits(whole, model.logits(golden.input_ids, single)));
        for (int threads : {1, 3}) {
          RunningModel other(golden.dir,
                             {.isa = isa, .threads = threads, .act = act, .kv_dtype = kv});
          CHECK(same_bits(whole, other.logits(golden.input_ids)));
        }
      }
    }
  }
}

TEST_CASE("SmolLM2-135M: reference logits of prose, greedy chats") {
  LLM_SKIP_WITHOUT_DATA("SmolLM2 reference");
  LLM_SKIP_WITHOUT_SMOLLM2("SmolLM2 logits and chats");
  const Json json = Json::parse(file_text(shared_data() / "goldens" / "smollm2.json"));
  RunningModel model(smollm2_dir(), {});
  const auto ids = json["ids"].get<std::vector<int32_t>>();
  const Logits logits = model.logits(ids);
  const size_t width = static_cast<size_t>(model.config().vocab_size);
  const double limit = 1e-3 * (json["logit_max"].get<double>() - json["logit_min"].get<double>());
  double worst = 0;
  for (size_t t = 0; t < ids.size(); ++t) {
    const std::span<const float> row(logits.data() + t * width, width);
    const double top = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (float x : row) sum += std::exp(double{x} - top);
    CHECK(std::abs(top + std::log(sum) - json["lse"][t].get<double>()) <= limit);
    const Json& top5 = json["top5"][t];
    for (size_t i = 0; i < top5["ids"].size(); ++i) {
      const size_t id = top5["ids"][i].get<size_t>();
      worst = std::max(worst, std::abs(double{row[id]} - top5["logits"][i].get<double>()));
    }
  }
  CHECK(worst <= limit);
  for (const Json& chat : json["chat"]) {
    CAPTURE(chat["user"].get<std::string>());
    const auto prompt = chat["prompt_ids"].get<std::vector<int32_t>>();
    const auto expected = chat["greedy_ids"].get<std::vector<int32_t>>();
    // Where two logits are closer than both could be off, either may win.
    if (chat["min_margin"].get<double>() <= 2 * worst) continue;
    CHECK(model.greedy(prompt, static_cast<int64_t>(expected.size())) == expected);
  }
}

}  // namespace llm
