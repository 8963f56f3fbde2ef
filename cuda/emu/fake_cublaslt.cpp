// The emulator has no cuBLASLt yet.
#include "cuda/cublaslt_api.h"

namespace llm {

const CublasLtApi* load_cublaslt() { return nullptr; }

}  // namespace llm
