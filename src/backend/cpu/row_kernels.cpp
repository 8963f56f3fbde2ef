#include "backend/cpu/row_kernels.h"

#include "base/error.h"

namespace llm {

extern const RowKernels kRowKernelsGeneric;
#ifdef __x86_64__
extern const RowKernels kRowKernelsAvx2;
extern const RowKernels kRowKernelsAvx512;
extern const RowKernels kRowKernelsAvx512Bf16;
#endif

const RowKernels& row_kernels(Isa isa) {
  switch (isa) {
#ifdef __x86_64__
    case Isa::kAvx2:
      return kRowKernelsAvx2;
    case Isa::kAvx512:
      return kRowKernelsAvx512;
    case Isa::kAvx512Bf16:
      return kRowKernelsAvx512Bf16;
#endif
    default:
      return kRowKernelsGeneric;
  }
}

}  // namespace llm
