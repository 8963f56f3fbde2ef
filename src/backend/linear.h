// Weights as the backends see them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/tensor.h"
#include "quant/packed_matrix.h"

namespace llm {

struct StoredMatrix;

/// A matrix of weights [rows, cols]: elements as a plain tensor holds them, or packed codes.
class Weight {
 public:
  Weight() = default;
  /// Row-major; F32, F16 or BF16; maybe unaligned.
  Weight(const ConstTensor& plain) : value_(plain) {}
  Weight(const PackedMatrix& packed) : value_(packed) {}

  bool is_packed() const { return std::holds_alternative<PackedMatrix>(value_); }
  const ConstTensor& plain() const { return std::get<ConstTensor>(value_); }
  const PackedMatrix& packed() const { return std::get<PackedMatrix>(value_); }

  int64_t rows() const { return is_packed() ? packed().shape.n : plain().shape[0]; }
  int64_t cols() const { return is_packed() ? packed().shape.k : plain().shape[1]; }
  int64_t bytes() const { return is_packed() ? packed().shape.bytes() : plain().bytes(); }
  /// Bytes that a look-up of one row reads.
  int64_t row_bytes() const { return bytes() / rows(); }

 private:
  std::variant<ConstTensor, PackedMatrix> value_;
};

/// Some rows of a matrix product's weight, as one module of the checkpoint holds them.
struct LinearPart {
  std::string name;             // module name: "q_proj"
  Weight weight;                // [n, k]
  const float* bias = nullptr;  // [n] or none
  /// What the weight is to be packed from, until place_weights() has done so.
  std::shared_ptr<const StoredMatrix> stored;

  int64_t rows() const { return weight.rows(); }
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

/// One of a mixture's MLPs: down(silu(gate(x)) * up(x)).
struct Expert {
  Linear gate_up_proj;  // gate_proj, up_proj
  Linear down_proj;
};

/// Mixture of experts: each token goes through the top_k experts that the router scores highest,
///   out = sum over them of p[e] expert_e(x),  p = softmax(x W_gate^T) over all experts,
/// divided by the sum of the chosen p where norm_topk_prob says so (Qwen3MoE, transformers).
struct Moe {
  Linear gate;  // the router: [num_experts, hidden_size]
  std::vector<Expert> experts;
  int64_t top_k = 0;
  bool norm_topk_prob = false;

  int64_t num_experts() const { return static_cast<int64_t>(experts.size()); }
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
  Weight weight;                               // [vocab_size, hidden_size]
  std::shared_ptr<const StoredMatrix> stored;  // as in LinearPart
};

}  // namespace llm
