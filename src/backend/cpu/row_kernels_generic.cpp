#include "backend/cpu/row_kernels-inl.h"
#include "backend/cpu/vec_generic.h"

namespace llm {

extern constinit const RowKernels kRowKernelsGeneric = make_row_kernels<VecGeneric>();

}  // namespace llm
