#include "cuda/emu/device_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "cuda/emu/sanitizer.h"

namespace llm::emu {
namespace {

constexpr int kFill = 0xff;
constexpr size_t kAlignment = 256;
constexpr size_t kGap = 256;
constexpr size_t kCommitStep = size_t{2} << 20;

size_t round_up(size_t n, size_t step) { return (n + step - 1) / step * step; }

}  // namespace

DeviceMemory::DeviceMemory() {
  void* const p =
      mmap(nullptr, kMappingBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<std::byte*>(p);
}

DeviceMemory::~DeviceMemory() {
  unpoison(mapping_, committed_);
  munmap(mapping_, kMappingBytes);
}

size_t DeviceMemory::reserved(size_t bytes) { return round_up(bytes, kAlignment) + kGap; }

/// Makes the mapping usable up to `end`: filled, and poisoned.
void DeviceMemory::commit(const std::byte* end) {
  const auto needed = static_cast<size_t>(end - mapping_);
  if (needed <= committed_) return;
  const size_t grown = round_up(needed, kCommitStep);
  std::byte* const begin = mapping_ + committed_;
  mprotect(begin, grown - committed_, PROT_READ | PROT_WRITE);
  std::memset(begin, kFill, grown - committed_);
  poison(begin, grown - committed_);
  if (!accessible_) mprotect(begin, grown - committed_, PROT_NONE);
  committed_ = grown;
}

void* DeviceMemory::allocate(size_t bytes, size_t limit) {
  if (bytes > limit || used_bytes_ > limit - bytes) return nullptr;
  // The first hole that is large enough.
  std::byte* place = mapping_ + kGap;
  for (const auto& [data, allocation] : allocations_) {
    if (place + reserved(bytes) <= data) break;
    place = data + reserved(allocation.bytes);
  }
  if (place + reserved(bytes) > mapping_ + kMappingBytes) return nullptr;
  commit(place + reserved(bytes));
  unpoison(place, bytes);
  allocations_[place] = {place, bytes, next_id_++};
  used_bytes_ += bytes;
  return place;
}

bool DeviceMemory::free(void* p) {
  const auto found = allocations_.find(static_cast<std::byte*>(p));
  if (found == allocations_.end()) return false;
  const Allocation& allocation = found->second;
  unpoison(allocation.data, reserved(allocation.bytes));
  std::memset(allocation.data, kFill, reserved(allocation.bytes));
  poison(allocation.data, reserved(allocation.bytes));
  used_bytes_ -= allocation.bytes;
  allocations_.erase(found);
  return true;
}

std::vector<DeviceMemory::Allocation> DeviceMemory::allocations() const {
  std::vector<Allocation> all;
  for (const auto& [data, allocation] : allocations_) all.push_back(allocation);
  return all;
}

std::optional<DeviceMemory::Allocation> DeviceMemory::find(const void* p) const {
  auto* const address = static_cast<std::byte*>(const_cast<void*>(p));
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return std::nullopt;
  const Allocation& allocation = (--after)->second;
  if (address >= allocation.data + std::max(allocation.bytes, size_t{1})) return std::nullopt;
  return allocation;
}

bool DeviceMemory::holds(const void* p, size_t bytes) const {
  const std::optional<Allocation> allocation = find(p);
  return allocation &&
         static_cast<const std::byte*>(p) + bytes <= allocation->data + allocation->bytes;
}

std::string DeviceMemory::describe(const void* p) const {
  const auto* const address = static_cast<const std::byte*>(p);
  auto after = allocations_.upper_bound(const_cast<std::byte*>(address));
  if (!is_device_address(p)) return fmt::format("{}, which is no device address", p);
  if (after == allocations_.begin()) return "device memory before all allocations";
  const Allocation& allocation = (--after)->second;
  return fmt::format("byte {} of a device allocation of {} bytes", address - allocation.data,
                     allocation.bytes);
}

bool DeviceMemory::is_device_address(const void* p) const {
  const auto* const address = static_cast<const std::byte*>(p);
  return address >= mapping_ && address < mapping_ + kMappingBytes;
}

std::optional<std::string> DeviceMemory::overrun() const {
  if (kAddressSanitizer) return std::nullopt;
  for (const auto& [data, allocation] : allocations_) {
    const std::byte* const end = data + allocation.bytes;
    const std::byte* const gap_end = data + reserved(allocation.bytes);
    if (std::any_of(end, gap_end, [](std::byte b) { return b != std::byte{kFill}; })) {
      return fmt::format("past the end of a device allocation of {} bytes", allocation.bytes);
    }
  }
  return std::nullopt;
}

void DeviceMemory::set_accessible(bool accessible) {
  if (accessible == accessible_) return;
  accessible_ = accessible;
  if (committed_ == 0) return;
  mprotect(mapping_, committed_, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
}

}  // namespace llm::emu
