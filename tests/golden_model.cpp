#include "golden_model.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/tensor.h"
#include "formula_weights.h"
#include "io/safetensors_writer.h"
#include "test_data.h"

namespace llm {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const fs::path kGoldens = "tests/goldens";

/// The values of a tensor, checked against what the script wrote down about them.
std::vector<BF16> make_tensor(const std::string& model, const std::string& name,
                              const Json& description) {
  int64_t count = 1;
  for (const int64_t extent : description.at("shape")) count *= extent;
  const std::string seed = model + "/" + name;
  const double scale = description.at("scale");
  std::vector<BF16> values =
      scale == 0 ? formula_norm(seed, count) : formula_weights(seed, count, scale);
  double sum = 0;
  for (const BF16 value : values) sum += to_float(value);
  bool same = sum == description.at("sum").get<double>();
  for (size_t i = 0; i < description.at("first").size(); ++i) {
    same = same && to_float(values[i]) == description["first"][i].get<float>();
  }
  if (!same) throw std::runtime_error(seed + " differs from what the golden was made with");
  return values;
}

void write_model(const fs::path& dir, const std::string& model, const Json& golden) {
  std::ofstream(dir / "config.json") << golden.at("config").dump(2) << "\n";
  std::map<std::string, std::vector<BF16>> values;
  std::vector<NamedTensor> tensors;
  for (const auto& [name, description] : golden.at("tensors").items()) {
    std::vector<BF16>& data = values[name] = make_tensor(model, name, description);
    const auto dims = description.at("shape").get<std::vector<int64_t>>();
    tensors.push_back({name,
                       {reinterpret_cast<const std::byte*>(data.data()), DType::kBF16,
                        Shape(std::span<const int64_t>(dims))}});
  }
  write_safetensors(dir / "model.safetensors", tensors);
}

}  // namespace

std::vector<std::string> golden_model_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kGoldens)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

GoldenModel load_golden_model(const std::string& name) {
  std::ifstream file(kGoldens / (name + ".json"));
  const Json json = Json::parse(file);
  GoldenModel golden;
  golden.name = name;
  golden.dir = fresh_test_dir("golden-" + name);
  write_model(golden.dir, name, json);
  json.at("input_ids").get_to(golden.input_ids);
  json.at("positions").get_to(golden.positions);
  json.at("logits").get_to(golden.logits);
  json.at("argmax").get_to(golden.argmax);
  json.at("margin").get_to(golden.margin);
  json.at("lse").get_to(golden.lse);
  json.at("logit_min").get_to(golden.logit_min);
  json.at("logit_max").get_to(golden.logit_max);
  json.at("greedy").get_to(golden.greedy);
  json.at("greedy_min_margin").get_to(golden.greedy_min_margin);
  json.at("bf16_forward").at("max_abs_diff").get_to(golden.bf16_max_abs_diff);
  json.at("bf16_forward").at("mean_abs_diff").get_to(golden.bf16_mean_abs_diff);
  return golden;
}

}  // namespace llm
