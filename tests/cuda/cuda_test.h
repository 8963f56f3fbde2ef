// For tests of kernels: arrays on the device, and runs in every schedule of the emulator. The same
// tests run on a GPU, where a schedule is whatever the GPU does.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cuda/rt.h"

#ifdef LLM_CUDA_EMU
#include "cuda/emu/settings.h"
#endif

namespace llm {

/// An array in device memory, with 0xff bytes at first in the emulator.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) {
    void* data = nullptr;
    LLM_CUDA(cudaMalloc(&data, size * sizeof(T)));
    data_ = static_cast<T*>(data);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { set(values); }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }

  /// values.size() must be size().
  void set(const std::vector<T>& values) {
    REQUIRE(values.size() == size_);
    if (size_ == 0) return;
    LLM_CUDA(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  void fill(int byte) {
    if (size_ > 0) LLM_CUDA(cudaMemset(data_, byte, size_ * sizeof(T)));
  }
  /// Waits for all work before.
  std::vector<T> host() const {
    std::vector<T> values(size_);
    LLM_CUDA(cudaDeviceSynchronize());
    if (size_ == 0) return values;
    LLM_CUDA(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

#ifdef LLM_CUDA_EMU

struct EmulatedSchedule {
  std::string name;
  emu::Settings settings;
};

/// Forward and reverse, each with late and early copies, and three random orders. The first is
/// strict, the second has lazy streams.
std::vector<EmulatedSchedule> all_schedules();

/// Calls run() once for each schedule and requires that the emulator finds nothing wrong in it, and
/// that all device memory is given back.
template <typename Run>
void for_each_schedule(Run run) {
  for (const EmulatedSchedule& schedule : all_schedules()) {
    CAPTURE(schedule.name);
    emu::Session session(schedule.settings);
    run();
    cudaDeviceSynchronize();
    REQUIRE(session.reports() == std::vector<std::string>());
    REQUIRE(session.leaks() == std::vector<std::string>());
  }
}

#else

template <typename Run>
void for_each_schedule(Run run) {
  run();
  LLM_CUDA(cudaDeviceSynchronize());
}

#endif

}  // namespace llm
