// The shared memory of the block that an operating-system thread runs.
//
// Arrays lie apart from each other, so that access past an end hits bytes that nobody owns:
// AddressSanitizer reports it, and without it a write is found when the block ends. Their starts
// are no better aligned than their types. All bytes are 0xff when a block starts: NaN as any float.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace llm::emu {

/// Most shared memory of a block, static and dynamic (sm_90: 227 KiB).
inline constexpr size_t kMaxSharedBytes = 227 * 1024;

class SharedArena {
 public:
  /// Room for arrays and gaps: many small arrays take more of it for gaps than for themselves.
  static constexpr size_t kArenaBytes = 2 * kMaxSharedBytes;

  SharedArena();
  ~SharedArena();
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;

  /// Forgets all arrays and makes the dynamic one.
  void begin_launch(size_t dynamic_bytes);
  /// Fills all arrays with 0xff.
  void begin_block();

  std::byte* dynamic() const { return dynamic_; }
  /// The array of this tag, made at its first use; null where shared memory is exhausted.
  void* array(const void* tag, const char* name, size_t bytes, size_t alignment);

  /// Bytes of all arrays.
  size_t total_bytes() const { return total_bytes_; }
  /// Whether p points into shared memory, array or not.
  bool contains(const void* p) const;
  const std::byte* begin() const { return memory_; }
  size_t offset_of(const void* p) const { return static_cast<const std::byte*>(p) - memory_; }
  /// Whether [p, p + bytes) lies in one array.
  bool holds(const void* p, size_t bytes) const;
  /// Where p points to, e.g. "byte 8 of warp_sums".
  std::string describe(const void* p) const;
  /// Names an array that was written past its ends, if any was. Not for AddressSanitizer.
  std::optional<std::string> overrun() const;

 private:
  struct Array {
    const void* tag;
    const char* name;
    std::byte* data;
    size_t bytes;
  };
  std::byte* place(const void* tag, const char* name, size_t bytes, size_t alignment);

  std::byte* memory_;
  std::byte* dynamic_ = nullptr;
  std::byte* end_;  // of what is laid out
  size_t total_bytes_ = 0;
  std::vector<Array> arrays_;
};

}  // namespace llm::emu
