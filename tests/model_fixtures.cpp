#include "model_fixtures.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace llm {

Fixture read_fixture(const std::filesystem::path& dir) {
  const std::filesystem::path path = dir / "expected.json";
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path.string());
  const nlohmann::json json = nlohmann::json::parse(file);
  Fixture f;
  f.ids = json["input_ids"].get<std::vector<int32_t>>();
  f.greedy = json["greedy"].get<std::vector<int32_t>>();
  for (const nlohmann::json& row : json["logits"]) {
    for (const nlohmann::json& value : row) f.logits.push_back(value.get<float>());
  }
  f.bf16_max = json["bf16_forward"]["max_abs_diff"].get<double>();
  f.bf16_mean = json["bf16_forward"]["mean_abs_diff"].get<double>();
  return f;
}

void check_float32(const std::filesystem::path& dir) {
  const Fixture f = read_fixture(dir);
  for (Isa isa : supported_isas()) {
    CAPTURE(dir.filename());
    CAPTURE(name_of(isa));
    RunningModel model(dir, {.isa = isa});
    CHECK(difference(model.logits(f.ids), f.logits).max <= 1e-3 * range(f.logits));
    CHECK(model.greedy(f.ids, static_cast<int64_t>(f.greedy.size())) == f.greedy);
  }
}

void check_bf16(const std::filesystem::path& dir) {
  const Fixture f = read_fixture(dir);
  for (Isa isa : supported_isas()) {
    CAPTURE(dir.filename());
    CAPTURE(name_of(isa));
    RunningModel model(dir, {.isa = isa, .act = ActDType::kBF16, .kv_dtype = DType::kBF16});
    const Difference d = difference(model.logits(f.ids), f.logits);
    CHECK(d.max <= 1.5 * f.bf16_max);
    CHECK(d.mean <= 1.5 * f.bf16_mean);
  }
}

void check_same_bits_however_run(const std::filesystem::path& dir) {
  const Fixture f = read_fixture(dir);
  const std::vector<int64_t> single(f.ids.size(), 1);
  for (Isa isa : supported_isas()) {
    for (ActDType act : {ActDType::kF32, ActDType::kBF16}) {
      CAPTURE(dir.filename());
      CAPTURE(name_of(isa));
      const DType kv = act == ActDType::kF32 ? DType::kF32 : DType::kBF16;
      RunningModel model(dir, {.isa = isa, .threads = 1, .act = act, .kv_dtype = kv});
      const Logits whole = model.logits(f.ids);
      CHECK(same_bits(whole, model.logits(f.ids, single)));
      RunningModel other(dir, {.isa = isa, .threads = 3, .act = act, .kv_dtype = kv});
      CHECK(same_bits(whole, other.logits(f.ids)));
    }
  }
}

Difference difference(const Logits& got, const Logits& expected) {
  REQUIRE(got.size() == expected.size());
  Difference d;
  for (size_t i = 0; i < got.size(); ++i) {
    const double delta = std::abs(double{got[i]} - double{expected[i]});
    REQUIRE(!std::isnan(delta));
    d.max = std::max(d.max, delta);
    d.mean += delta / static_cast<double>(got.size());
  }
  return d;
}

double range(const Logits& logits) {
  const auto [low, high] = std::minmax_element(logits.begin(), logits.end());
  return double{*high} - double{*low};
}

Logits at_positions(const Logits& all, const std::vector<int64_t>& positions, size_t width) {
  Logits some;
  for (int64_t p : positions) {
    const auto row = all.begin() + p * static_cast<int64_t>(width);
    some.insert(some.end(), row, row + static_cast<int64_t>(width));
  }
  return some;
}

}  // namespace llm
