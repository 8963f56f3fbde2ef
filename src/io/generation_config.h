// generation_config.json: how a model's makers want it sampled, and where it stops.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

/// Keys that the file doesn't set stay empty.
struct GenerationConfig {
  std::vector<int32_t> eos_token_ids;
  bool do_sample = false;
  std::optional<float> temperature;
  std::optional<int32_t> top_k;  // 0 and -1 both mean off
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  /// Keys that are set, would change the answers and aren't supported: "num_beams 4".
  std::vector<std::string> ignored;
};

/// Parses the text of a generation_config.json; `origin` names it in messages. Refuses (exit code
/// 2) a wrong type or a number out of range, naming key and value.
GenerationConfig parse_generation_config(std::string_view json, const std::string& origin);

/// Reads DIR/generation_config.json; defaults where there is no such file.
GenerationConfig load_generation_config(const std::filesystem::path& model_dir);

/// Ids that end an answer: the union of both lists, ascending.
std::vector<int32_t> union_of_ids(std::span<const int32_t> a, std::span<const int32_t> b);

}  // namespace llm
