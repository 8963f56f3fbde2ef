// Memory for large tables that are read at random places, in huge pages where the system has them:
// then the CPU has the addresses of all of a table at hand.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace llm {

/// Bytes for at least `size`, aligned to a huge page; never null. For std::free().
void* allocate_huge_pages(size_t size);

/// Asks for huge pages for memory that is to be written, as far as it spans whole ones.
void prefer_huge_pages(void* begin, size_t size);

template <typename T>
class HugePageAllocator {
 public:
  using value_type = T;
  static constexpr size_t kMinBytes = size_t{1} << 20;  // smaller blocks come from the heap

  HugePageAllocator() = default;
  template <typename U>
  HugePageAllocator(const HugePageAllocator<U>&) {}

  T* allocate(size_t count) {
    const size_t size = count * sizeof(T);
    if (size >= kMinBytes) return static_cast<T*>(allocate_huge_pages(size));
    return static_cast<T*>(::operator new (size, std::align_val_t{alignof(T)}));
  }
  void deallocate(T* block, size_t count) {
    if (count * sizeof(T) >= kMinBytes) {
      std::free(block);
    } else {
      ::operator delete (block, std::align_val_t{alignof(T)});
    }
  }
  bool operator==(const HugePageAllocator&) const = default;
};

template <typename T>
using HugePageVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace llm
