// The CUDA runtime's functions for memory.
#include <fmt/format.h>

#include <cstring>

#include "cuda/emu/device.h"

using llm::emu::Device;
using llm::emu::device;

namespace {

/// Host memory is aligned to a page, as the driver's is.
constexpr size_t kHostAlignment = 4096;

cudaError_t allocate(void** out, size_t bytes) {
  Device& d = device();
  if (const cudaError_t error = d.refuse_in_capture(); error != cudaSuccess) return error;
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  *out = d.memory().allocate(bytes, d.settings().device.memory_bytes);
  return *out != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t release(void* p) {
  Device& d = device();
  if (p == nullptr) return cudaSuccess;
  bool known = false;
  d.touch_memory([&] { known = d.memory().free(p); });
  return known ? cudaSuccess
               : d.refuse_call(cudaErrorInvalidValue,
                               fmt::format("cudaFree of {}, which is no device allocation", p));
}

/// Whether this end of a copy lies where its kind says.
bool is_right_end(const void* p, size_t bytes, bool on_device) {
  return on_device ? device().memory().holds(p, bytes) : !device().memory().is_device_address(p);
}

struct CopyEnds {
  bool from_device;
  bool to_device;
};

CopyEnds ends_of(void* to, const void* from, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return {false, false};
    case cudaMemcpyHostToDevice:
      return {false, true};
    case cudaMemcpyDeviceToHost:
      return {true, false};
    case cudaMemcpyDeviceToDevice:
      return {true, true};
    default:
      break;
  }
  return {device().memory().is_device_address(from), device().memory().is_device_address(to)};
}

cudaError_t queue_copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                       cudaStream_t stream) {
  Device& d = device();
  if (bytes == 0) return cudaSuccess;
  const CopyEnds ends = ends_of(to, from, kind);
  if (!is_right_end(from, bytes, ends.from_device) || !is_right_end(to, bytes, ends.to_device)) {
    return d.refuse_call(cudaErrorInvalidValue,
                         fmt::format("copy of {} bytes from {} to {}: not in one allocation, or "
                                     "not where its kind ({}) says",
                                     bytes, from, to, static_cast<int>(kind)));
  }
  // Pageable memory is read before the call returns.
  const bool staged = !ends.from_device && !d.is_pinned(from);
  std::vector<std::byte> stage;
  if (staged) {
    const auto* const begin = static_cast<const std::byte*>(from);
    stage.assign(begin, begin + bytes);
  }
  return d.submit(stream, {"copy", [=, stage = std::move(stage)] {
                             Device& target = device();
                             target.touch_memory(
                                 [&] { std::memmove(to, staged ? stage.data() : from, bytes); });
                             auto& counters = target.counters();
                             const auto n = static_cast<int64_t>(bytes);
                             if (ends.from_device && ends.to_device) counters.bytes_on_device += n;
                             if (!ends.from_device && ends.to_device) counters.bytes_to_device += n;
                             if (ends.from_device && !ends.to_device) counters.bytes_to_host += n;
                           }});
}

cudaError_t queue_fill(void* p, int value, size_t bytes, cudaStream_t stream) {
  Device& d = device();
  if (bytes == 0) return cudaSuccess;
  if (!d.memory().holds(p, bytes)) {
    return d.refuse_call(cudaErrorInvalidValue,
                         fmt::format("fill of {} bytes at {}: not in one allocation", bytes, p));
  }
  return d.submit(stream,
                  {"fill", [=] { device().touch_memory([&] { std::memset(p, value, bytes); }); }});
}

cudaError_t allocate_host(void** out, size_t bytes) {
  Device& d = device();
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  const size_t rounded = (bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
  *out = std::aligned_alloc(kHostAlignment, rounded);
  if (*out == nullptr) return cudaErrorMemoryAllocation;
  d.add_pinned(*out, bytes);
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaMalloc(void** out, size_t bytes) {
  return device().call("cudaMalloc", [&] { return allocate(out, bytes); });
}

cudaError_t cudaMallocAsync(void** out, size_t bytes, cudaStream_t) {
  return device().call("cudaMallocAsync", [&] { return allocate(out, bytes); });
}

cudaError_t cudaFree(void* p) {
  return device().call_release("cudaFree", [&] {
    if (const cudaError_t error = device().refuse_in_capture(); error != cudaSuccess) return error;
    device().wait_for_all();
    return release(p);
  });
}

cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
  return device().call("cudaFreeAsync", [&] {
    return device().submit(stream, {"free", [p] { release(p); }});
  });
}

cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned) {
  return device().call("cudaHostAlloc", [&] { return allocate_host(out, bytes); });
}

cudaError_t cudaMallocHost(void** out, size_t bytes) {
  return device().call("cudaMallocHost", [&] { return allocate_host(out, bytes); });
}

cudaError_t cudaFreeHost(void* p) {
  return device().call_release("cudaFreeHost", [&]() -> cudaError_t {
    if (p == nullptr) return cudaSuccess;
    device().wait_for_all();
    if (!device().remove_pinned(p)) return cudaErrorInvalidValue;
    std::free(p);
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* p, size_t bytes, unsigned) {
  return device().call("cudaHostRegister", [&]() -> cudaError_t {
    if (device().is_pinned(p)) return cudaErrorHostMemoryAlreadyRegistered;
    device().add_pinned(p, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* p) {
  return device().call_release("cudaHostUnregister", [&] {
    device().wait_for_all();
    return device().remove_pinned(p) ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return device().call("cudaMemcpy", [&] {
    cudaError_t error = device().refuse_in_capture();
    if (error == cudaSuccess) error = queue_copy(to, from, bytes, kind, nullptr);
    if (error == cudaSuccess) device().wait_for(*device().stream_of(nullptr));
    return error;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return device().call("cudaMemcpyAsync",
                       [&] { return queue_copy(to, from, bytes, kind, stream); });
}

cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  return device().call("cudaMemset", [&] {
    cudaError_t error = device().refuse_in_capture();
    if (error == cudaSuccess) error = queue_fill(p, value, bytes, nullptr);
    return error;
  });
}

cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
  return device().call("cudaMemsetAsync", [&] { return queue_fill(p, value, bytes, stream); });
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return device().call("cudaMemGetInfo", [&]() -> cudaError_t {
    *total_bytes = device().settings().device.memory_bytes;
    *free_bytes = *total_bytes - device().memory().used_bytes();
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  return device().call("cudaPointerGetAttributes", [&]() -> cudaError_t {
    *attributes = {};
    void* const address = const_cast<void*>(p);
    if (device().memory().find(p)) {
      attributes->type = cudaMemoryTypeDevice;
      attributes->devicePointer = address;
    } else if (device().is_pinned(p)) {
      attributes->type = cudaMemoryTypeHost;
      attributes->devicePointer = address;
      attributes->hostPointer = address;
    }
    return cudaSuccess;
  });
}
