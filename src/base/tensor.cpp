#include "base/tensor.h"

#include <sys/mman.h>

#include <utility>

#include "base/size_text.h"

namespace llm {

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  LLM_CHECK(dims.size() <= kMaxRank, "rank {}", dims.size());
  for (size_t i = 0; i < dims.size(); ++i) dims_[i] = dims[i];
}

int64_t Shape::num_elements() const {
  int64_t n = 1;
  for (int64_t d : dims()) n *= d;
  return n;
}

std::string to_string(const Shape& shape) {
  std::string s = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i > 0) s += ", ";
    s += std::to_string(shape[i]);
  }
  return s + "]";
}

Buffer::Buffer(int64_t bytes) : size_(bytes) {
  LLM_CHECK(bytes >= 0);
  if (bytes == 0) return;
  void* p = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    size_ = 0;
    fail("out of memory: {} more were needed", size_text(bytes));
  }
  // Huge pages cut TLB misses in weights and KV; the kernel may refuse, which is only slower.
  if (bytes >= (int64_t{2} << 20)) madvise(p, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(p);
}

Buffer::~Buffer() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(size_));
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Tensor Buffer::tensor(DType dtype, const Shape& shape) const {
  LLM_CHECK(byte_size(dtype, shape) <= size_, "{} {} in {} bytes", name_of(dtype), to_string(shape),
            size_);
  return {data_, dtype, shape};
}

}  // namespace llm
