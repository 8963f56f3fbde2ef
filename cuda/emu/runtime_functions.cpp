// The CUDA runtime's view of compiled kernels, of which the emulator knows little.
#include "cuda/emu/device.h"

using llm::emu::device;

/// Every kernel has code for every emulated architecture.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  return device().call("cudaFuncGetAttributes", [&] {
    *attributes = {};
    attributes->binaryVersion = 10 * device().settings().device.major;
    return cudaSuccess;
  });
}
