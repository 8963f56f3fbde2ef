// How many bytes of device memory kernels touch, and how often they read each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace llm::emu {

class Traffic {
 public:
  /// Counts from now on, from zero.
  void start() {
    pages_.clear();
    is_counting_ = true;
  }
  void stop() { is_counting_ = false; }

  void read(uintptr_t begin, size_t bytes) { add(begin, bytes, 1); }
  void write(uintptr_t begin, size_t bytes) { add(begin, bytes, 0); }

  /// Bytes that were read or written.
  int64_t distinct_bytes() const;
  /// Of [begin, begin + bytes): sum over the bytes of how often each was read.
  int64_t bytes_read(const void* begin, int64_t bytes) const;

 private:
  static constexpr uintptr_t kPageBytes = 4096;
  struct Byte {
    bool touched = false;
    uint16_t reads = 0;
  };
  using Page = std::array<Byte, kPageBytes>;

  void add(uintptr_t begin, size_t bytes, uint16_t reads);

  bool is_counting_ = false;
  std::unordered_map<uintptr_t, Page> pages_;  // by address / kPageBytes
};

}  // namespace llm::emu
