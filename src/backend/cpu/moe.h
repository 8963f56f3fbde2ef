// Mixture of experts on the CPU.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/matmul.h"
#include "backend/linear.h"
#include "base/thread_pool.h"

namespace llm {

/// Sends rows through their experts, one expert after the other in ascending order, so that each is
/// read once however many rows chose it, and a row's sum has one order in every batch.
class CpuMoe {
 public:
  CpuMoe(ThreadPool& pool, const MatmulKernels& kernels, ActDType act)
      : pool_(&pool), kernels_(&kernels), act_(act) {}

  /// y[rows, H] += moe(x[rows, H]). The router's scores are float32 products whatever the
  /// activations are rounded to.
  void run(float* y, const float* x, int64_t rows, const Moe& moe);

 private:
  /// A row and its weight in the sum.
  struct Choice {
    int64_t row;
    float weight;
  };

  void choose(const float* x, int64_t rows, const Moe& moe);
  void run_expert(const float* x, const Expert& expert, const std::vector<Choice>& rows);

  ThreadPool* pool_;
  const MatmulKernels* kernels_;
  ActDType act_;
  std::vector<std::vector<Choice>> rows_of_;  // [num_experts], rows ascending
  std::vector<float> scores_;                 // [rows, num_experts]
  std::vector<float> gathered_;               // [rows of the expert, H]
  std::vector<float> gated_;                  // [rows of the expert, I]
  std::vector<float> out_;                    // [rows of the expert, H]
  std::vector<float> sum_;                    // [rows, H]
  PackedRows packed_;
};

}  // namespace llm
