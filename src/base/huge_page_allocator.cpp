#include "base/huge_page_allocator.h"

#include <sys/mman.h>

namespace llm {

void* allocate_huge_pages(size_t size) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t rounded = (size + kHugePage - 1) / kHugePage * kHugePage;
  void* block = std::aligned_alloc(kHugePage, rounded);
  if (block == nullptr) throw std::bad_alloc();
  // A system without huge pages leaves it at small ones.
  madvise(block, rounded, MADV_HUGEPAGE);
  return block;
}

}  // namespace llm
