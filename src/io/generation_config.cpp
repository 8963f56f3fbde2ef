#include "io/generation_config.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/files.h"
#include "io/config_reader.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

std::optional<float> narrowed(std::optional<double> x) {
  if (!x) return std::nullopt;
  return static_cast<float>(*x);
}

/// Keys that change no answer here: read above, or about something else (training, caches, lengths
/// that --max-tokens and --ctx decide).
constexpr std::string_view kWithoutEffect[] = {
    "eos_token_id",
    "do_sample",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "bos_token_id",
    "pad_token_id",
    "max_length",
    "max_new_tokens",
    "transformers_version",
    "_from_model_config",
    "use_cache",
    "cache_implementation",
    "trust_remote_code",
    "output_attentions",
    "output_scores",
    "output_hidden_states",
    "return_dict_in_generate",
};

/// A value that says "off" for all keys of transformers' GenerationConfig.
bool is_off(const JsonValue& value) {
  if (value.is_null() || (value.is_bool() && !value.boolean)) return true;
  if (value.is_number()) return value.number == 0 || value.number == 1;
  return (value.is_array() && value.array.empty()) || (value.is_object() && value.object.empty());
}

std::vector<std::string> ignored_keys(const JsonValue& root) {
  std::vector<std::string> ignored;
  for (const auto& [key, value] : root.object) {
    const bool known = std::find(std::begin(kWithoutEffect), std::end(kWithoutEffect), key) !=
                       std::end(kWithoutEffect);
    if (!known && !is_off(value)) ignored.push_back(printable(key) + " " + describe(value));
  }
  return ignored;
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
  config.ignored = ignored_keys(root);
  return config;
}

GenerationConfig load_generation_config(const fs::path& model_dir) {
  const fs::path path = model_dir / "generation_config.json";
  if (!is_listed(path)) return {};
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
