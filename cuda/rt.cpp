// Errors of the CUDA runtime as errors of the program.
#include "cuda/rt.h"

#include "base/error.h"

namespace llm {

void check_cuda(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  if (status == cudaErrorMemoryAllocation) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    const bool known = cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess;
    fail(
        "out of GPU memory{}: lower --ctx, --kv-blocks, --max-num-seqs, --batch or "
        "--max-num-batched-tokens, give --kv-dtype fp8 or int8, or use --device cpu",
        known
            ? fmt::format(" ({}): {} of {} MiB are free", call, free_bytes >> 20, total_bytes >> 20)
            : "");
  }
  fail("GPU error in {}: {} ({}, {}:{})", call, cudaGetErrorString(status),
       cudaGetErrorName(status), file, line);
}

}  // namespace llm
