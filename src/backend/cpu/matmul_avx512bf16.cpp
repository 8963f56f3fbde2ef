#include "backend/cpu/matmul_avx512-inl.h"

namespace llm {
namespace {

struct MatmulAvx512Bf16 : MatmulAvx512 {
  static constexpr bool kHasDot = true;
};

}  // namespace

extern constinit const MatmulKernels kMatmulAvx512Bf16 = make_matmul_kernels<MatmulAvx512Bf16>();

}  // namespace llm
