#include "cuda/memory.h"

#include <fmt/format.h>

namespace llm {

DeviceMemory uninitialized_device_memory(int64_t bytes) {
  if (bytes == 0) return {};
  void* p = nullptr;
  const cudaError_t status = cudaMalloc(&p, static_cast<size_t>(bytes));
  if (status != cudaSuccess) {
    check_cuda(status, fmt::format("{} MiB more are wanted", (bytes >> 20) + 1).c_str());
  }
  return {{static_cast<std::byte*>(p), [](std::byte* memory) { cudaFree(memory); }}, bytes};
}

PinnedMemory pinned_memory(int64_t bytes) {
  void* p = nullptr;
  LLM_CUDA(cudaHostAlloc(&p, static_cast<size_t>(bytes), cudaHostAllocDefault));
  return PinnedMemory(static_cast<std::byte*>(p));
}

Stream make_stream() {
  cudaStream_t stream = nullptr;
  LLM_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

Event make_event() {
  cudaEvent_t event = nullptr;
  LLM_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return Event(event);
}

std::byte* Workspace::reserve(int64_t bytes, cudaStream_t stream, bool zeroed) {
  if (memory_.size() < bytes) {
    // Work that was asked for may still use the old memory.
    LLM_CUDA(cudaStreamSynchronize(stream));
    memory_ = {};
    memory_ = uninitialized_device_memory(bytes);
    if (zeroed) {
      LLM_CUDA(cudaMemsetAsync(memory_.data(), 0, static_cast<size_t>(bytes), stream));
    }
  }
  return memory_.data();
}

std::byte* PinnedWorkspace::reserve(int64_t bytes) {
  if (size_ < bytes) {
    memory_.reset();
    size_ = 0;
    memory_ = pinned_memory(bytes);
    size_ = bytes;
  }
  return memory_.get();
}

}  // namespace llm
