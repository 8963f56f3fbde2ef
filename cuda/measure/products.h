// Products with random operands, ours and cuBLASLt's.
#pragma once

#include <memory>
#include <string>

#include "cuda/gemm_cublaslt.h"
#include "cuda/measure/model_step.h"

namespace llm::measure {

/// Weights that products of different shapes take from one piece of memory, in turn.
class Products {
 public:
  /// Room for weights of up to so many bytes, operands of m * k and results of m * n elements.
  Products(Lab& lab, int64_t weight_bytes, int64_t operand_elements, int64_t result_elements);

  bool has_cublaslt() const { return cublaslt_ != nullptr; }

  /// m rows (at most kMaxSmallRows) by launch_small_linear(), as GB/s of weights.
  void time_small(const std::string& model, const ProductShape& shape, int m);
  /// The head with its norm on the way, or before it where the rows are too many.
  void time_head(const std::string& model, const ProductShape& shape, int m);
  /// By launch_gemm(), as TFLOP/s.
  void time_gemm(const std::string& model, const ProductShape& shape, int m);
  /// By cuBLASLt, as either. Nothing where it is missing, a note where it can't.
  void time_cublaslt(const std::string& model, const ProductShape& shape, int m, Unit unit);

 private:
  const bf16* weight(const ProductShape& shape, int i) const;
  int copies(const ProductShape& shape) const;
  Case named(const std::string& model, const ProductShape& shape, int m, const char* by,
             Unit unit) const;

  Lab* lab_;
  std::unique_ptr<CublasLtGemm> cublaslt_;
  DeviceMemory weights_, operand_, hidden_, norm_, result_;
  Workspace scratch_;
};

}  // namespace llm::measure
