#include "base/huge_page_allocator.h"

#include <sys/mman.h>

#include <cstdint>

namespace llm {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

void* allocate_huge_pages(size_t size) {
  const size_t rounded = (size + kHugePage - 1) / kHugePage * kHugePage;
  void* block = std::aligned_alloc(kHugePage, rounded);
  if (block == nullptr) throw std::bad_alloc();
  // A system without huge pages leaves it at small ones.
  madvise(block, rounded, MADV_HUGEPAGE);
  return block;
}

void prefer_huge_pages(void* begin, size_t size) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = (address + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t end = (address + size) / kHugePage * kHugePage;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
}

}  // namespace llm
