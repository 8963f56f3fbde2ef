// The CUDA runtime's functions for devices, function attributes and errors.
#include <cstdio>
#include <cstring>
#include <string>

#include "cuda/emu/device.h"

using llm::emu::device;
using llm::emu::DeviceModel;

namespace {

constexpr int kThreadsPerMultiprocessor = 2048;
constexpr int kSharedPerMultiprocessor = 228 * 1024;
constexpr int kDefaultShared = 48 * 1024;
constexpr int kRegisters = 64 * 1024;

const DeviceModel& model() { return device().settings().device; }

bool exists(int index) { return index >= 0 && index < model().count; }

cudaError_t attribute(int* value, cudaDeviceAttr attr) {
  switch (attr) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = model().major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = model().minor;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = model().multiprocessors;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      break;
    case cudaDevAttrWarpSize:
      *value = llm::emu::kWarpSize;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = kDefaultShared;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(llm::emu::kMaxSharedBytes);
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = kSharedPerMultiprocessor;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = kThreadsPerMultiprocessor;
      break;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      *value = kRegisters;
      break;
    case cudaDevAttrL2CacheSize:
      *value = 50 << 20;
      break;
    case cudaDevAttrCooperativeLaunch:
      *value = 0;
      break;
    case cudaDevAttrIntegrated:
      *value = 0;
      break;
    case cudaDevAttrMemoryPoolsSupported:
      *value = 1;
      break;
    case cudaDevAttrConcurrentKernels:
      *value = 1;
      break;
    case cudaDevAttrAsyncEngineCount:
      *value = 1;
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define LLM_EMU_ERROR(name, text) \
  { name, #name, text }
constexpr ErrorText kErrors[] = {
    LLM_EMU_ERROR(cudaSuccess, "no error"),
    LLM_EMU_ERROR(cudaErrorInvalidValue, "invalid argument"),
    LLM_EMU_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    LLM_EMU_ERROR(cudaErrorInitializationError, "initialization error"),
    LLM_EMU_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    LLM_EMU_ERROR(cudaErrorInsufficientDriver,
                  "CUDA driver version is insufficient for CUDA runtime version"),
    LLM_EMU_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    LLM_EMU_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    LLM_EMU_ERROR(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    LLM_EMU_ERROR(cudaErrorNoKernelImageForDevice,
                  "no kernel image is available for execution on the device"),
    LLM_EMU_ERROR(cudaErrorSystemDriverMismatch,
                  "system has unsupported display driver / cuda "
                  "driver combination"),
    LLM_EMU_ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    LLM_EMU_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    LLM_EMU_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    LLM_EMU_ERROR(cudaErrorNotReady, "device not ready"),
    LLM_EMU_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    LLM_EMU_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    LLM_EMU_ERROR(cudaErrorHostMemoryAlreadyRegistered,
                  "part or all of the requested memory range is already mapped"),
    LLM_EMU_ERROR(cudaErrorHostMemoryNotRegistered,
                  "pointer does not correspond to a registered memory region"),
    LLM_EMU_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    LLM_EMU_ERROR(cudaErrorNotSupported, "operation not supported"),
    LLM_EMU_ERROR(cudaErrorStreamCaptureUnsupported,
                  "operation not permitted when stream is capturing"),
    LLM_EMU_ERROR(cudaErrorStreamCaptureInvalidated,
                  "operation failed due to a previous error during capture"),
    LLM_EMU_ERROR(cudaErrorGraphExecUpdateFailure,
                  "the graph update was not performed because it included changes which violated "
                  "constraints specific to instantiated graph update"),
    LLM_EMU_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef LLM_EMU_ERROR

const ErrorText* find_error(cudaError_t error) {
  for (const ErrorText& known : kErrors) {
    if (known.error == error) return &known;
  }
  return nullptr;
}

}  // namespace

// ---- Devices ----

cudaError_t cudaGetDeviceCount(int* count) {
  return device().call("cudaGetDeviceCount", [&]() -> cudaError_t {
    *count = model().count;
    return model().count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaGetDevice(int* index) {
  return device().call("cudaGetDevice", [&]() -> cudaError_t {
    *index = 0;
    return cudaSuccess;
  });
}

// All devices are one: there is one memory.
cudaError_t cudaSetDevice(int index) {
  return device().call("cudaSetDevice",
                       [&] { return exists(index) ? cudaSuccess : cudaErrorInvalidDevice; });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int index) {
  return device().call("cudaGetDeviceProperties", [&]() -> cudaError_t {
    if (!exists(index)) return cudaErrorInvalidDevice;
    *prop = {};
    std::snprintf(prop->name, sizeof(prop->name), "%s", model().name.c_str());
    prop->totalGlobalMem = model().memory_bytes;
    prop->major = model().major;
    prop->minor = model().minor;
    prop->multiProcessorCount = model().multiprocessors;
    prop->maxThreadsPerBlock = 1024;
    prop->warpSize = llm::emu::kWarpSize;
    prop->sharedMemPerBlock = kDefaultShared;
    prop->sharedMemPerBlockOptin = llm::emu::kMaxSharedBytes;
    prop->sharedMemPerMultiprocessor = kSharedPerMultiprocessor;
    prop->maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
    prop->regsPerBlock = kRegisters;
    prop->regsPerMultiprocessor = kRegisters;
    prop->l2CacheSize = 50 << 20;
    prop->asyncEngineCount = 1;
    prop->concurrentKernels = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int index) {
  return device().call("cudaDeviceGetAttribute", [&] {
    return exists(index) ? attribute(value, attr) : cudaErrorInvalidDevice;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return device().call("cudaDeviceGetStreamPriorityRange", [&]() -> cudaError_t {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return device().call("cudaDriverGetVersion", [&]() -> cudaError_t {
    *version = model().driver_version;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return device().call("cudaRuntimeGetVersion", [&]() -> cudaError_t {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

// ---- Functions ----

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute attr, int value) {
  return device().call("cudaFuncSetAttribute", [&] {
    const bool too_much = attr == cudaFuncAttributeMaxDynamicSharedMemorySize &&
                          value > static_cast<int>(llm::emu::kMaxSharedBytes);
    return too_much ? cudaErrorInvalidValue : cudaSuccess;
  });
}

// ---- Errors ----

cudaError_t cudaGetLastError() { return device().last_error(true); }
cudaError_t cudaPeekAtLastError() { return device().last_error(false); }

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* const known = find_error(error);
  return known != nullptr ? known->name : "unrecognized error code";
}

// What went wrong in a kernel, the emulator knows better than a GPU.
const char* cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorLaunchFailure) return device().launch_failure();
  const ErrorText* const known = find_error(error);
  return known != nullptr ? known->text : "unrecognized error code";
}
