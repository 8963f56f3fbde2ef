// Weights as the backends see them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace llm {

/// Some rows of a matrix product's weight, as one tensor of the checkpoint holds them.
struct LinearPart {
  std::string name;             // module name: "q_proj"
  ConstTensor weight;           // [n, k] row-major; F32, F16 or BF16; maybe unaligned
  const float* bias = nullptr;  // [n] or none
  int64_t rows() const { return weight.shape[0]; }
};

/// y[m, n] = x[m, k] W[n, k]^T + bias. Modules that share their input are parts of one Linear
/// ("qkv_proj" is q_proj, k_proj, v_proj); their outputs stand side by side in that order.
struct Linear {
  std::string name;  // "qkv_proj"
  std::vector<LinearPart> parts;
  int64_t k = 0;

  int64_t n() const {
    int64_t sum = 0;
    for (const LinearPart& part : parts) sum += part.rows();
    return sum;
  }
  int64_t weight_bytes() const {
    int64_t sum = 0;
    for (const LinearPart& part : parts) sum += part.weight.bytes();
    return sum;
  }
};

/// Scale of an RMSNorm: y = x / sqrt(mean(x^2) + eps) * weight.
struct Norm {
  std::string name;               // "input_layernorm"
  const float* weight = nullptr;  // [size]
  int64_t size = 0;
  float eps = 1e-6f;
};

/// Token embedding table.
struct Embedding {
  ConstTensor weight;  // [vocab_size, hidden_size]; F32, F16 or BF16; maybe unaligned
};

}  // namespace llm
