// config.json's "quantization_config", in the spellings of AutoAWQ, AutoGPTQ, GPTQModel,
// compressed-tensors and transformers' FP8.
#pragma once

#include <optional>

#include "io/config_reader.h"
#include "quant/quant_config.h"

namespace llm {

/// Nothing for plain weights. Refuses (exit code 2) what can't be loaded, naming key and value.
std::optional<QuantConfig> parse_quant_config(const ConfigReader& config);

}  // namespace llm
