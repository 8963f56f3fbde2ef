// The one include of everything under cuda/: the CUDA runtime, or with LLM_CUDA_EMU the emulator
// that runs the same kernels thread by thread on a CPU (emu/emu.h). Below: shared memory, launches
// and error checks, written the same way for both.
//
// LLM_SHARED(float, sums, [8]);        a __shared__ array
// LLM_DYN_SHARED(Tiles, tiles);        Tiles* tiles: the launch's dynamic shared memory
// LLM_LAUNCH(config, (gemm_kernel<64, true>), out, in, n);
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace llm {

/// Where launchers put their kernels.
struct Queue {
  cudaStream_t stream = nullptr;
  /// Whether they may start before the launch before them ends, as LaunchConfig has it.
  bool overlaps = true;

  Queue(cudaStream_t stream, bool overlaps = true)  // NOLINT: a stream is a queue
      : stream(stream), overlaps(overlaps) {}
};

/// Where and how a kernel runs.
struct LaunchConfig {
  dim3 grid = 1;
  dim3 block = 1;
  size_t shared_bytes = 0;  // dynamic
  cudaStream_t stream = nullptr;
  /// May start before the launch before it ends; the kernel calls ptx::wait_for_predecessor()
  /// before it reads what that one writes (sm_90 and later; elsewhere the launches stay in order).
  bool overlaps_predecessor = false;
  bool cooperative = false;
  unsigned cluster = 1;  // blocks along x
};

/// Throws Error (exit code 1) naming the call and the runtime's reason, unless it succeeded.
/// Running out of memory is said as such.
void check_cuda(cudaError_t status, const char* call, const char* file = __builtin_FILE(),
                int line = __builtin_LINE());

}  // namespace llm

#define LLM_CUDA(call) ::llm::check_cuda((call), #call)

#ifdef LLM_CUDA_EMU
#include "cuda/emu/emu.h"
#else

// A braced or parenthesised template kernel is one macro argument: (kernel<1, 2>).
#define LLM_LAUNCH(config, kernel, ...) \
  ::llm::launch(#kernel, kernel, (config)__VA_OPT__(, ) __VA_ARGS__)
#define LLM_SHARED(type, name, extents) __shared__ type name extents
#define LLM_DYN_SHARED(type, name)                                     \
  extern __shared__ __align__(128) unsigned char llm_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(llm_dynamic_shared)

#ifdef __CUDACC__
namespace llm {

/// Whether launches can overlap on the current device: older ones may refuse to be asked.
inline bool overlaps_launches() {
  int device = 0;
  int major = 0;
  LLM_CUDA(cudaGetDevice(&device));
  LLM_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major >= 9;
}

/// Queues the kernel; arguments are converted to its parameters. Throws as check_cuda().
template <typename... Params, typename... Args>
void launch(const char* name, void (*kernel)(Params...), const LaunchConfig& config,
            Args&&... args) {
  cudaLaunchAttribute attributes[3];
  cudaLaunchConfig_t c{};
  c.gridDim = config.grid;
  c.blockDim = config.block;
  c.dynamicSmemBytes = config.shared_bytes;
  c.stream = config.stream;
  c.attrs = attributes;
  if (config.overlaps_predecessor && overlaps_launches()) {
    attributes[c.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[c.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (config.cooperative) {
    attributes[c.numAttrs].id = cudaLaunchAttributeCooperative;
    attributes[c.numAttrs++].val.cooperative = 1;
  }
  if (config.cluster > 1) {
    attributes[c.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[c.numAttrs++].val.clusterDim = {config.cluster, 1, 1};
  }
  const auto set = [&](cudaFuncAttribute attribute, int value) {
    check_cuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value), name);
  };
  // The same for all, since a multiprocessor changes it only when it is idle: launches wouldn't
  // overlap.
  set(cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  if (config.shared_bytes > 0) {
    // Needed where static and dynamic memory together are more than 48 KiB; harmless elsewhere.
    set(cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(config.shared_bytes));
  }
  check_cuda(cudaLaunchKernelEx(&c, kernel, static_cast<Params>(args)...), name);
}

}  // namespace llm
#endif
#endif
