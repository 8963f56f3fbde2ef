// What a checkpoint's quantization_config says that its tensors don't, or only together with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "quant/stored_matrix.h"

namespace llm {

enum class QuantMethod { kAwq, kGptq, kCompressedTensors, kFp8 };

/// In config.json's spelling: "awq", "gptq", "compressed-tensors", "fp8".
std::string_view name_of(QuantMethod method);
std::optional<QuantMethod> quant_method_from_name(std::string_view name);

struct QuantConfig {
  QuantMethod method = QuantMethod::kAwq;
  /// Bits of all quantized modules; nothing where the config doesn't say or has rules for some.
  std::optional<int> bits;
  /// Input channels that share a scale, -1 for all; nothing as above.
  std::optional<int64_t> group_size;
  ZeroRule zero_rule = ZeroRule::kAsStored;  // of GPTQ
  int64_t block_rows = 128;                  // of FP8 blocks
  int64_t block_cols = 128;
  /// The config asks for activations of 8 bits, which aren't rounded here.
  bool rounds_activations = false;
};

}  // namespace llm
