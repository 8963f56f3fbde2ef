// What `llm inspect` found, as text and as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "model/model_config.h"

namespace llm {

struct InspectReport {
  std::string name;  // folder or file
  const std::vector<SafetensorsFile>* files = nullptr;
  // A single file has none of these.
  std::optional<ModelConfig> config;
  std::vector<int32_t> eos_token_ids;
  std::optional<int64_t> tokenizer_ids;  // one more than the largest id

  bool checked = false;
  std::vector<std::string> findings;  // of --check
  /// How many matrices of the decoder's layers and the head are of each quantized type
  /// ("4-bit, groups of 128"), and the modules that stayed plain ("layers.0.mlp.up_proj").
  std::map<std::string, int64_t> quantized_types;
  std::vector<std::string> plain_modules;
};

/// Bytes of all tensors.
int64_t total_bytes(const InspectReport& report);

/// A table for people.
std::string inspect_table(const InspectReport& report);

/// One JSON object and a newline; unknown values are null.
std::string inspect_json(const InspectReport& report);

}  // namespace llm
