// Which tensors of a checkpoint make up a quantized module, and how they are to be read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "quant/quant_config.h"
#include "quant/stored_matrix.h"

namespace llm {

struct QuantizedModule {
  std::shared_ptr<const StoredMatrix> matrix;
  std::vector<std::string> tensors;  // all that belong to it, some of them not read
};

/// The module's weight [n, k], decided by the tensors that are there; nothing if it is plain.
/// Refuses (exit code 2) missing, contradicting and ill-shaped tensors, scales of 0, and what
/// `config` doesn't go with, naming tensor, expected and actual.
std::optional<QuantizedModule> quantized_module(const Checkpoint& checkpoint,
                                                const std::optional<QuantConfig>& config,
                                                const std::string& module, int64_t n, int64_t k);

}  // namespace llm
