#include "io/generation_config.h"

#include <algorithm>
#include <limits>

#include "io/config_reader.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

std::optional<float> narrowed(std::optional<double> x) {
  if (!x) return std::nullopt;
  return static_cast<float>(*x);
}

}  // namespace

GenerationConfig parse_generation_config(std::string_view json, const std::string& origin) {
  const JsonValue root = parse_json(json, origin);
  const ConfigReader reader(root, origin);
  GenerationConfig config;
  config.eos_token_ids = reader.token_ids("eos_token_id");
  config.do_sample = reader.boolean("do_sample").value_or(false);
  config.temperature = narrowed(reader.number("temperature", 0, 1000));
  if (const auto top_k = reader.integer("top_k", -1, std::numeric_limits<int32_t>::max())) {
    config.top_k = static_cast<int32_t>(*top_k);
  }
  config.top_p = narrowed(reader.number("top_p", 0, 1));
  config.min_p = narrowed(reader.number("min_p", 0, 1));
  config.repetition_penalty = narrowed(reader.number("repetition_penalty", 0.01, 100));
  return config;
}

GenerationConfig load_generation_config(const fs::path& model_dir) {
  const fs::path path = model_dir / "generation_config.json";
  std::error_code ec;
  if (fs::symlink_status(path, ec).type() == fs::file_type::not_found) return {};
  return parse_generation_config(read_text_file(path, 1 << 20), path.string());
}

std::vector<int32_t> union_of_ids(std::span<const int32_t> a, std::span<const int32_t> b) {
  std::vector<int32_t> ids(a.begin(), a.end());
  ids.insert(ids.end(), b.begin(), b.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace llm
