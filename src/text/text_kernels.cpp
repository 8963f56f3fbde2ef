#include "text/text_kernels.h"

namespace llm {

extern const TextKernels kTextKernelsGeneric;
#ifdef __x86_64__
extern const TextKernels kTextKernelsAvx2;
extern const TextKernels kTextKernelsAvx512;
#endif

const TextKernels& text_kernels(Isa isa) {
  switch (isa) {
#ifdef __x86_64__
    case Isa::kAvx2:
      return kTextKernelsAvx2;
    case Isa::kAvx512:
    case Isa::kAvx512Bf16:
      return kTextKernelsAvx512;
#endif
    default:
      return kTextKernelsGeneric;
  }
}

const TextKernels& text_kernels() {
  static const TextKernels& chosen = text_kernels(choose_isa());
  return chosen;
}

}  // namespace llm
