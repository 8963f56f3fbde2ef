// Matrix products of many rows by cuBLASLt, where it is installed.
#pragma once

#include <map>
#include <memory>
#include <tuple>

#include "cuda/cublaslt_api.h"
#include "cuda/kernels.h"
#include "cuda/memory.h"

namespace llm {

class CublasLtGemm {
 public:
  /// Null where the library isn't installed or doesn't start.
  static std::unique_ptr<CublasLtGemm> create();
  ~CublasLtGemm();
  CublasLtGemm(const CublasLtGemm&) = delete;
  CublasLtGemm& operator=(const CublasLtGemm&) = delete;

  /// Float32 out[m, n] = x[m, k] W[n, k]^T, or += (kAdd). False, with nothing done, where the
  /// library has no way to compute this shape. Which way it takes is decided once per shape.
  bool run(float* out, Epilogue epilogue, const bf16* x, int m, const LinearWeights& weights,
           cudaStream_t stream);

 private:
  struct Plan;
  using Key = std::tuple<int, int, int, bool>;  // m, n, k, adds

  CublasLtGemm(const CublasLtApi& api, cublasLtHandle_t handle);
  std::unique_ptr<Plan> make_plan(const Key& key) const;

  const CublasLtApi* api_;
  cublasLtHandle_t handle_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
  Workspace workspace_;
};

}  // namespace llm
