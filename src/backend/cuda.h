// The door to the CUDA part (cuda/): what devices there are, and a backend on one of them. A build
// without it (no_cuda.cpp) finds none and says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace llm {

/// One GPU.
struct CudaDevice {
  int index = 0;
  std::string name;
  std::string architecture;  // "sm_90"
  int num_multiprocessors = 0;
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;
  std::string problem;  // one sentence with the way out; empty: usable
};

struct CudaSystem {
  std::vector<CudaDevice> devices;  // without what open_cuda_device() tells
  std::string driver;   // the latest CUDA version that the driver serves, "13.0"; empty: no driver
  std::string problem;  // why there are none, one sentence with the way out
};

/// The toolkit and the architectures of this build: "13.0 for sm_80, sm_90a"; empty: none.
std::string cuda_build();

/// What devices there are. Never throws: what is wrong with one is its `problem`.
CudaSystem find_cuda();

/// Fills in the free memory, and the problem where the device can't be used. Takes some of its
/// memory until the program ends, so only for devices that are asked about. Never throws.
void open_cuda_device(CudaDevice& device);

/// The version of cuBLASLt, "13.1.0", which is loaded at run time; empty where it isn't found.
std::string cublaslt_version();

// What the kernels are made for: query heads for each KV head, dimensions of a head, and what every
// width of the model is a multiple of.
inline constexpr int64_t kCudaMaxGroup = 8;
inline constexpr int64_t kCudaMaxHeadDim = 256;
inline constexpr int64_t kCudaWidthMultiple = 8;

// How rows that decode go through a matrix product: up to this many read its weights together, and
// up to this many are normed on the way (fewer of very wide ones), more by a launch of their own.
inline constexpr int64_t kCudaRowsAtOnce = 64;
inline constexpr int64_t kCudaFusedNormRows = 8;

/// For measurements: what a decode step does to be quick. Results don't depend on it.
struct CudaTuning {
  bool graphs = true;     // steps are recorded as CUDA graphs
  bool overlap = true;    // launches start before those before them end (sm_90 and later)
  bool prefetch = false;  // attention brings the next weights into L2
};

/// Rows that are sampled by one launch, each with a copy of its logits for penalties.
inline constexpr int kCudaSampledAtOnce = 64;

struct CudaOptions {
  int device = 0;  // index
  /// Every row through the same kernels, however a prompt is cut into chunks (design: "equal
  /// results"); slower prompts.
  bool invariant = false;
  CudaTuning tuning = {};
};

/// Throws Error (exit code 1) where the device fails. The pool serves copies and sampling.
std::unique_ptr<Backend> make_cuda_backend(ThreadPool& pool, const CudaOptions& options);

}  // namespace llm
