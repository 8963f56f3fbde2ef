// Inputs of the three proof kernels, and their results from the formulas in double.
#pragma once

#include <memory>
#include <vector>

#include "cuda_test.h"
#include "proof_kernels.h"

namespace llm {

/// A kernel with its data on the device.
class ProofCase {
 public:
  virtual ~ProofCase() = default;
  virtual const char* name() const = 0;
  /// Launches it and waits; whether every value is right.
  virtual bool run(Fault fault) = 0;
};

/// 5 rows of 200.
std::unique_ptr<ProofCase> make_norm_case();
/// 40 x 50 x 104: ragged tiles, four slices.
std::unique_ptr<ProofCase> make_gemm_case();
/// 2 heads, 200 of 256 keys: four splits, the last not full.
std::unique_ptr<ProofCase> make_attention_case();

}  // namespace llm
