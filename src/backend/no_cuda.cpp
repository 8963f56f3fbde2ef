// What stands in for cuda/ in a build without it.
#include "backend/cuda.h"
#include "base/error.h"

namespace llm {

std::string cuda_build() { return {}; }

CudaSystem find_cuda() {
  return {.devices = {},
          .driver = {},
          .problem = "this build has no CUDA part: install the CUDA toolkit and build again"};
}

void open_cuda_device(CudaDevice&) {}

std::string cublaslt_version() { return {}; }

std::unique_ptr<Backend> make_cuda_backend(ThreadPool&, const CudaOptions&) {
  fail("{}", find_cuda().problem);
}

}  // namespace llm
