// Dense row-major arrays: Tensor and ConstTensor are views, Buffer owns memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/error.h"

namespace llm {

/// Up to four extents, outermost first. A scalar has rank 0 and one element.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  int64_t num_elements() const;
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  bool operator==(const Shape& other) const = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// "[17, 1024]".
std::string to_string(const Shape& shape);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<BF16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<F16> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kI8;
};

/// Bytes of a dense array of this type and shape.
inline int64_t byte_size(DType dtype, const Shape& shape) {
  return shape.num_elements() * bits_of(dtype) / 8;
}

/// A read-only view. The data may be unaligned (it can lie in a mapped file).
struct ConstTensor {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  int64_t bytes() const { return byte_size(dtype, shape); }
  /// The elements as T; T must be the dtype. Only for memory known to be aligned.
  template <typename T>
  const T* as() const {
    LLM_CHECK(dtype == DTypeOf<T>::value, "tensor is {}", name_of(dtype));
    return reinterpret_cast<const T*>(data);
  }
};

/// A writable view.
struct Tensor {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  int64_t bytes() const { return byte_size(dtype, shape); }
  operator ConstTensor() const { return {data, dtype, shape}; }
  template <typename T>
  T* as() const {
    LLM_CHECK(dtype == DTypeOf<T>::value, "tensor is {}", name_of(dtype));
    return reinterpret_cast<T*>(data);
  }
};

/// Zero-filled memory, 64-byte aligned, returned to the system when the Buffer dies. Large buffers
/// come straight from mmap, so pages that are never written cost nothing.
class Buffer {
 public:
  Buffer() = default;
  /// Throws Error (exit code 1) naming the size when the memory can't be had.
  explicit Buffer(int64_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }
  /// The first bytes as a tensor; the shape must fit.
  Tensor tensor(DType dtype, const Shape& shape) const;

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace llm
