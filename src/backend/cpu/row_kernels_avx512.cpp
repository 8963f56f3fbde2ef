#include "backend/cpu/row_kernels-inl.h"
#include "backend/cpu/vec_avx512.h"

namespace llm {

extern constinit const RowKernels kRowKernelsAvx512 = make_row_kernels<VecAvx512>();

}  // namespace llm
