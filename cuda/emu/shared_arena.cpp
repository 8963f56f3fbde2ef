#include "cuda/emu/shared_arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

#include "cuda/emu/sanitizer.h"

namespace llm::emu {
namespace {

constexpr int kFill = 0xff;
constexpr size_t kGap = 64;  // bytes between arrays, at least
constexpr size_t kAlignment = 128;

std::byte* aligned(std::byte* p, size_t alignment) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  return p + (alignment - address % alignment) % alignment;
}

}  // namespace

SharedArena::SharedArena()
    : memory_(static_cast<std::byte*>(::operator new (kArenaBytes, std::align_val_t{kAlignment}))),
      end_(memory_) {
  std::memset(memory_, kFill, kArenaBytes);
  poison(memory_, kArenaBytes);
}

SharedArena::~SharedArena() {
  unpoison(memory_, kArenaBytes);
  ::operator delete (memory_, std::align_val_t{kAlignment});
}

void SharedArena::begin_launch(size_t dynamic_bytes) {
  const size_t used = std::min(static_cast<size_t>(end_ - memory_) + kGap, kArenaBytes);
  unpoison(memory_, used);
  std::memset(memory_, kFill, used);
  poison(memory_, used);
  arrays_.clear();
  total_bytes_ = 0;
  end_ = memory_ + kGap;
  dynamic_ = place(nullptr, "dynamic shared memory", dynamic_bytes, kAlignment);
}

void SharedArena::begin_block() {
  for (const Array& array : arrays_) std::memset(array.data, kFill, array.bytes);
}

std::byte* SharedArena::place(const void* tag, const char* name, size_t bytes, size_t alignment) {
  std::byte* data = aligned(end_ + kGap, kAlignment);
  if (alignment < kAlignment) data += alignment;
  unpoison(data, bytes);
  arrays_.push_back({tag, name, data, bytes});
  total_bytes_ += bytes;
  end_ = data + bytes;
  return data;
}

void* SharedArena::array(const void* tag, const char* name, size_t bytes, size_t alignment) {
  for (const Array& array : arrays_) {
    if (array.tag == tag) return array.data;
  }
  const size_t room = static_cast<size_t>(memory_ + kArenaBytes - end_);
  if (total_bytes_ + bytes > kMaxSharedBytes || bytes + 2 * kAlignment + 2 * kGap > room) {
    return nullptr;
  }
  return place(tag, name, bytes, alignment);
}

bool SharedArena::contains(const void* p) const {
  const auto* const address = static_cast<const std::byte*>(p);
  return address >= memory_ && address < memory_ + kArenaBytes;
}

bool SharedArena::holds(const void* p, size_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(p);
  return std::any_of(arrays_.begin(), arrays_.end(), [&](const Array& array) {
    return begin >= array.data && begin + bytes <= array.data + array.bytes;
  });
}

std::string SharedArena::describe(const void* p) const {
  const auto* const address = static_cast<const std::byte*>(p);
  const Array* before = nullptr;
  for (const Array& array : arrays_) {
    if (array.data <= address) before = &array;
  }
  if (before == nullptr) return "shared memory before all arrays";
  return fmt::format("byte {} of {} ({} bytes)", address - before->data, before->name,
                     before->bytes);
}

std::optional<std::string> SharedArena::overrun() const {
  if (kAddressSanitizer) return std::nullopt;
  const auto touched = [](std::byte b) { return b != std::byte{kFill}; };
  const std::byte* gap_begin = memory_;
  const char* before = "the first shared array";
  for (const Array& array : arrays_) {
    if (std::any_of(gap_begin, static_cast<const std::byte*>(array.data), touched)) {
      return std::string("past the end of ") + before + " or before the start of " + array.name;
    }
    gap_begin = array.data + array.bytes;
    before = array.name;
  }
  if (std::any_of(gap_begin, gap_begin + kGap, touched)) {
    return std::string("past the end of ") + before;
  }
  return std::nullopt;
}

}  // namespace llm::emu
