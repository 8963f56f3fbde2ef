// The rope settings of a config.json, in both spellings.
#pragma once

#include <cstdint>

#include "io/config_reader.h"
#include "model/model_config.h"

namespace llm {

/// From `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling` (4). Refuses (exit
/// code 2) unknown types and numbers out of range.
RopeConfig parse_rope(const ConfigReader& config, int64_t max_position_embeddings);

}  // namespace llm
