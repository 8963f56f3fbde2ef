#include "backend/cpu/matmul_avx512-inl.h"

namespace llm {

extern constinit const MatmulKernels kMatmulAvx512 = make_matmul_kernels<MatmulAvx512>();

}  // namespace llm
