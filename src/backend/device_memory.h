// Memory that a backend's operations work on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/tensor.h"

namespace llm {

/// Owns memory of a backend, wherever that lies; Backend::write() and to_host() are the ways in and
/// out.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(std::shared_ptr<std::byte> data, int64_t size)
      : data_(std::move(data)), size_(size) {}

  std::byte* data() const { return data_.get(); }
  int64_t size() const { return size_; }
  /// The first bytes as a tensor; the shape must fit.
  Tensor tensor(DType dtype, const Shape& shape) const {
    LLM_CHECK(byte_size(dtype, shape) <= size_, "{} in {} bytes", to_string(shape), size_);
    return {data(), dtype, shape};
  }

 private:
  std::shared_ptr<std::byte> data_;
  int64_t size_ = 0;
};

/// Zero-filled memory of the host, as Buffer.
DeviceMemory host_memory(int64_t bytes);

}  // namespace llm
