#include "io/tensor_check.h"

#include <cstring>

namespace llm {
namespace {

/// Counts patterns whose exponent is all ones: infinities where the rest is zero, else NaNs.
/// `exponent` masks the exponent, `magnitude` everything but the sign.
template <typename Bits>
NonFiniteCount count_ieee(const std::byte* data, int64_t bytes, Bits exponent, Bits magnitude) {
  NonFiniteCount count;
  for (int64_t at = 0; at + static_cast<int64_t>(sizeof(Bits)) <= bytes;
       at += static_cast<int64_t>(sizeof(Bits))) {
    Bits x = 0;
    std::memcpy(&x, data + at, sizeof x);  // maybe unaligned
    const bool is_special = (x & exponent) == exponent;
    const bool is_inf = (x & magnitude) == exponent;
    count.inf += is_inf;
    count.nan += is_special && !is_inf;
  }
  return count;
}

/// Eight-bit types without infinities: NaN is one magnitude.
NonFiniteCount count_pattern(const std::byte* data, int64_t bytes, uint8_t mask, uint8_t nan) {
  NonFiniteCount count;
  for (int64_t i = 0; i < bytes; ++i) {
    count.nan += (std::to_integer<uint8_t>(data[i]) & mask) == nan;
  }
  return count;
}

/// Reads data that has no special values, so that an unreadable block of the disk shows.
void read_pages(const std::byte* data, int64_t bytes) {
  constexpr int64_t kPage = 4096;
  for (int64_t at = 0; at < bytes; at += kPage) {
    static_cast<void>(*const_cast<const volatile std::byte*>(data + at));
  }
}

}  // namespace

NonFiniteCount count_non_finite(const SafetensorsFile::Entry& entry) {
  switch (entry.dtype) {
    case DType::kF32:
    case DType::kC64:  // two F32
      return count_ieee<uint32_t>(entry.data, entry.bytes, 0x7f800000u, 0x7fffffffu);
    case DType::kF16:
      return count_ieee<uint16_t>(entry.data, entry.bytes, 0x7c00, 0x7fff);
    case DType::kBF16:
      return count_ieee<uint16_t>(entry.data, entry.bytes, 0x7f80, 0x7fff);
    case DType::kF64:
      return count_ieee<uint64_t>(entry.data, entry.bytes, 0x7ff0000000000000u,
                                  0x7fffffffffffffffu);
    case DType::kF8E5M2:
      return count_ieee<uint8_t>(entry.data, entry.bytes, 0x7c, 0x7f);
    case DType::kF8E4M3:
      return count_pattern(entry.data, entry.bytes, 0x7f, 0x7f);
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2FNUZ:
      return count_pattern(entry.data, entry.bytes, 0xff, 0x80);
    case DType::kF8E8M0:
      return count_pattern(entry.data, entry.bytes, 0xff, 0xff);
    default:
      read_pages(entry.data, entry.bytes);
      return {};
  }
}

}  // namespace llm
