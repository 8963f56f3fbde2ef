// Owners of what the CUDA runtime hands out.
#pragma once

#include <memory>
#include <type_traits>

#include "backend/device_memory.h"
#include "cuda/rt.h"

namespace llm {

/// Device memory with whatever was left in it.
DeviceMemory uninitialized_device_memory(int64_t bytes);

struct PinnedDeleter {
  void operator()(std::byte* p) const { cudaFreeHost(p); }
};
/// Host memory that the device copies from and to without the CPU's help.
using PinnedMemory = std::unique_ptr<std::byte, PinnedDeleter>;
PinnedMemory pinned_memory(int64_t bytes);

struct StreamDeleter {
  void operator()(cudaStream_t s) const { cudaStreamDestroy(s); }
};
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, StreamDeleter>;
Stream make_stream();

struct EventDeleter {
  void operator()(cudaEvent_t e) const { cudaEventDestroy(e); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDeleter>;
/// Only orders work: without time stamps. Unrecorded it counts as reached.
Event make_event();

/// Device memory that grows; what it held is gone then.
class Workspace {
 public:
  /// At least so many bytes, used by work on this stream only. `zeroed`: zero-filled when it is
  /// new.
  std::byte* reserve(int64_t bytes, cudaStream_t stream, bool zeroed = false);
  int64_t size() const { return memory_.size(); }
  std::byte* data() const { return memory_.data(); }

 private:
  DeviceMemory memory_;
};

/// Host memory for copies, which grows; what it held is gone then.
class PinnedWorkspace {
 public:
  std::byte* reserve(int64_t bytes);
  std::byte* data() const { return memory_.get(); }

 private:
  PinnedMemory memory_;
  int64_t size_ = 0;
};

}  // namespace llm
