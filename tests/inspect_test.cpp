#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/dtype.h"
#include "checkpoint_maker.h"
#include "cli/inspect_report.h"
#include "io/json.h"
#include "io/safetensors_writer.h"
#include "io/tensor_check.h"
#include "test_data.h"

using namespace llm;
namespace fs = std::filesystem;

namespace {

template <typename Bits>
NonFiniteCount count(DType dtype, const std::vector<Bits>& values) {
  // One byte off: tensors may lie unaligned.
  std::vector<std::byte> memory(1 + values.size() * sizeof(Bits));
  std::memcpy(memory.data() + 1, values.data(), values.size() * sizeof(Bits));
  return count_non_finite({dtype, {}, memory.data() + 1, static_cast<int64_t>(memory.size()) - 1});
}

}  // namespace

TEST_CASE("tensor check: NaNs and infinities of every float type") {
  const auto check = [](const NonFiniteCount& c, int64_t nan, int64_t inf) {
    CHECK(c.nan == nan);
    CHECK(c.inf == inf);
  };
  const float inf = std::numeric_limits<float>::infinity();
  check(count<float>(DType::kF32, {0, 1, -inf, NAN, inf, std::numeric_limits<float>::max()}), 1, 2);
  check(count<double>(DType::kF64, {0, -INFINITY, -NAN, 1e308}), 1, 1);
  check(count<uint16_t>(DType::kBF16, {0x7f80, 0xff80, 0x7f81, 0xffff, 0x7f7f, 0}), 2, 2);
  check(count<uint16_t>(DType::kF16, {0x7c00, 0xfc00, 0x7c01, 0x7bff, 0x7f80}), 2, 2);
  check(count<uint8_t>(DType::kF8E4M3, {0x7f, 0xff, 0x7e, 0x78, 0}), 2, 0);
  check(count<uint8_t>(DType::kF8E5M2, {0x7c, 0xfc, 0x7d, 0x7b}), 1, 2);
  check(count<uint8_t>(DType::kF8E8M0, {0xff, 0x7f}), 1, 0);
  check(count<uint8_t>(DType::kF8E4M3FNUZ, {0x80, 0x7f}), 1, 0);
  check(count<uint32_t>(DType::kI32, {0xffffffffu, 0x7f800000u}), 0, 0);
}

TEST_CASE("inspect: the JSON keys that scripts rely on") {
  const fs::path dir = fresh_test_dir("inspect");
  write_random2(dir, {.vocab_size = 320});
  const Checkpoint checkpoint = Checkpoint::open(dir);
  InspectReport report;
  report.name = dir.string();
  report.files = &checkpoint.files();
  report.config = load_model_config(dir);
  report.eos_token_ids = {7};
  report.checked = true;
  report.findings = {"something"};
  const JsonValue json = parse_json(inspect_json(report), "inspect");
  CHECK(json.find("architecture")->string == "Qwen3ForCausalLM");
  CHECK(json.find("parameters")->integer == report.config->num_parameters());
  CHECK(json.find("bytes")->integer == 2 * report.config->num_parameters());
  CHECK(json.find("dtype")->string == "BF16");
  for (const char* key : {"quant_method", "bits", "group_size", "tokenizer_ids"}) {
    REQUIRE(json.find(key) != nullptr);
    CHECK(json.find(key)->is_null());
  }
  CHECK(json.find("vocab_size")->integer == 320);
  CHECK(json.find("kv_bytes_per_token")->integer == 2 * 2 * 64 * 2);  // K, V: 2 layers of 64 BF16
  CHECK(json.find("tensors")->array.size() == checkpoint.names().size());
  CHECK(json.find("findings")->array[0].string == "something");
  const JsonValue* run = json.find("run");
  REQUIRE(run != nullptr);
  CHECK(run->find("version")->is_string());
  CHECK(run->object.size() == 7);

  const std::string table = inspect_table(report);
  CHECK(table.find("model.layers.1.self_attn.k_norm.weight") != std::string::npos);
  CHECK(table.find("[320, 64]") != std::string::npos);
  CHECK(table.find("finding: something") != std::string::npos);
}

TEST_CASE("inspect: a single file has neither config nor architecture") {
  const fs::path path = fresh_test_dir("inspect-file") / "x.safetensors";
  const std::vector<float> values(6);
  const std::vector<NamedTensor> tensors = {
      {"x\x1b", {reinterpret_cast<const std::byte*>(values.data()), DType::kF32, Shape{2, 3}}}};
  write_safetensors(path, tensors);
  std::vector<SafetensorsFile> files;
  files.push_back(SafetensorsFile::open(path));
  InspectReport report;
  report.name = path.string();
  report.files = &files;
  const JsonValue json = parse_json(inspect_json(report), "inspect");
  CHECK(json.find("architecture")->is_null());
  CHECK(json.find("parameters")->integer == 6);
  CHECK(json.find("findings")->is_null());  // not checked
  CHECK(inspect_table(report).find('\x1b') == std::string::npos);
}
