#include "backend/cpu/row_kernels-inl.h"
#include "backend/cpu/vec_avx2.h"

namespace llm {

extern constinit const RowKernels kRowKernelsAvx2 = make_row_kernels<VecAvx2>();

}  // namespace llm
