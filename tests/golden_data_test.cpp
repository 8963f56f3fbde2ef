// The goldens themselves are in order, before any model is judged by them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "golden_model.h"
#include "io/safetensors.h"

using namespace llm;

TEST_CASE("golden data: weights are those of the script, files open, numbers agree") {
  const std::vector<std::string> names = golden_model_names();
  CHECK(names.size() >= 12);
  for (const std::string& name : names) {
    CAPTURE(name);
    const GoldenModel golden = load_golden_model(name);
    CHECK(Checkpoint::open(golden.dir).contains("model.norm.weight"));
    CHECK(golden.input_ids.size() == 700);
    CHECK(golden.greedy.size() == 16);
    CHECK(golden.greedy_min_margin > 0.0f);
    REQUIRE(golden.logits.size() == golden.positions.size());
    for (size_t i = 0; i < golden.logits.size(); ++i) {
      const std::vector<float>& row = golden.logits[i];
      const size_t position = static_cast<size_t>(golden.positions[i]);
      CHECK(std::max_element(row.begin(), row.end()) - row.begin() == golden.argmax[position]);
      double sum = 0;
      for (const float x : row) sum += std::exp(static_cast<double>(x));
      CHECK(std::log(sum) == doctest::Approx(golden.lse[position]).epsilon(1e-6));
    }
  }
}
