// What GPUs there are, and why one can't be used.
#include <fmt/format.h>

#include "backend/cuda.h"
#include "cuda/cublaslt_api.h"
#include "cuda/kernels.h"
#include "cuda/rt.h"

namespace llm {
namespace {

// LLM_CUDA_ARCHS comes from the Makefile: "sm_80, sm_90a".

/// The oldest architecture that the kernels are written for: BF16 tensor cores and cp.async.
constexpr int kOldestMajor = 8;

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Why there is no device at all.
std::string no_device_problem(cudaError_t status, int driver_version) {
  if (driver_version == 0) {
    return "no NVIDIA driver was found: install it, and check it with nvidia-smi";
  }
  switch (status) {
    case cudaErrorInsufficientDriver:
      return fmt::format(
          "the NVIDIA driver serves CUDA {}, but this build needs {}: update the driver, or build "
          "with the older toolkit",
          version_text(driver_version), version_text(CUDART_VERSION));
    case cudaSuccess:
    case cudaErrorNoDevice:
      return "the driver sees no NVIDIA GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES";
    default:
      return fmt::format("the CUDA runtime doesn't start: {}", cudaGetErrorString(status));
  }
}

/// Why this one can't be used; fills in its free memory.
std::string problem_of(CudaDevice& device) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  cudaError_t status = cudaSetDevice(device.index);
  if (status == cudaSuccess) status = cudaMemGetInfo(&free_bytes, &total_bytes);
  if (status == cudaErrorMemoryAllocation) {
    return fmt::format("{} has no memory left: end what else uses it", device.name);
  }
  if (status != cudaSuccess) {
    return fmt::format("{} can't be opened: {}", device.name, cudaGetErrorString(status));
  }
  device.free_bytes = static_cast<int64_t>(free_bytes);
  status = kernel_image_status();
  if (status == cudaErrorNoKernelImageForDevice) {
    const std::string archs = LLM_CUDA_ARCHS;  // empty where kernels run on the host alone
    return fmt::format("this build has code for {}, but {} is {}: build with CUDA_ARCHS={}",
                       archs.empty() ? "no GPU" : archs, device.name, device.architecture,
                       device.architecture.substr(device.architecture.find('_') + 1));
  }
  if (status != cudaSuccess) {
    return fmt::format("{} can't run the kernels: {}", device.name, cudaGetErrorString(status));
  }
  return {};
}

CudaDevice read_device(int index) {
  CudaDevice device;
  device.index = index;
  cudaDeviceProp properties{};
  if (const cudaError_t read = cudaGetDeviceProperties(&properties, index); read != cudaSuccess) {
    device.problem = fmt::format("can't be read: {}", cudaGetErrorString(read));
    return device;
  }
  device.name = properties.name;
  device.architecture = fmt::format("sm_{}{}", properties.major, properties.minor);
  device.num_multiprocessors = properties.multiProcessorCount;
  device.total_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  if (properties.major < kOldestMajor) {
    device.problem = fmt::format("{} ({}) is too old: sm_80 (Ampere) or newer is needed",
                                 device.name, device.architecture);
  }
  return device;
}

}  // namespace

std::string cuda_build() {
  return fmt::format("{} for {}", version_text(CUDART_VERSION), LLM_CUDA_ARCHS);
}

CudaSystem find_cuda() {
  CudaSystem system;
  int driver_version = 0;
  if (cudaDriverGetVersion(&driver_version) != cudaSuccess) driver_version = 0;
  if (driver_version > 0) system.driver = version_text(driver_version);
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (driver_version / 1000 < CUDART_VERSION / 1000) status = cudaErrorInsufficientDriver;
  if (status != cudaSuccess || count == 0) {
    system.problem = no_device_problem(status, driver_version);
    return system;
  }
  for (int index = 0; index < count; ++index) system.devices.push_back(read_device(index));
  return system;
}

void open_cuda_device(CudaDevice& device) {
  if (device.problem.empty()) device.problem = problem_of(device);
}

std::string cublaslt_version() {
  const CublasLtApi* api = load_cublaslt();
  if (api == nullptr) return {};
  const size_t version = api->get_version();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace llm
