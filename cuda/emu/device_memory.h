// The fake GPU's memory: one mapping, so that it can be taken away from the host.
//
// Allocations are 256-byte aligned, filled with 0xff (NaN as any float) and at least 256 bytes
// apart. Access between them is found by AddressSanitizer, and writes there by overrun().
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace llm::emu {

class DeviceMemory {
 public:
  static constexpr size_t kMappingBytes = size_t{1} << 36;

  struct Allocation {
    std::byte* data = nullptr;
    size_t bytes = 0;
    int64_t id = 0;  // ascending
  };

  DeviceMemory();
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// Null where more than `limit` bytes would be in use.
  void* allocate(size_t bytes, size_t limit);
  /// False unless p is an allocation's start.
  bool free(void* p);

  const std::byte* begin() const { return mapping_; }
  size_t used_bytes() const { return used_bytes_; }
  int64_t next_id() const { return next_id_; }
  std::vector<Allocation> allocations() const;
  /// The allocation that p points into, if any.
  std::optional<Allocation> find(const void* p) const;
  /// Whether p lies in the mapping, allocated or not.
  bool is_device_address(const void* p) const;
  /// Whether [p, p + bytes) lies in one allocation.
  bool holds(const void* p, size_t bytes) const;
  /// Where p points to, e.g. "byte 8 of a device allocation of 64 bytes".
  std::string describe(const void* p) const;
  /// Names an allocation that was written past its end. Not for AddressSanitizer.
  std::optional<std::string> overrun() const;

  /// Whether code may touch the memory.
  void set_accessible(bool accessible);

 private:
  static size_t reserved(size_t bytes);  // with the gap that follows
  void commit(const std::byte* end);

  std::byte* mapping_;
  size_t committed_ = 0;  // bytes of the mapping that were ever in use
  size_t used_bytes_ = 0;
  int64_t next_id_ = 0;
  bool accessible_ = true;
  std::map<std::byte*, Allocation> allocations_;
};

}  // namespace llm::emu
