// Reading the codes, zeros and scales of a stored matrix, one at a time.
#pragma once

#include <cstdint>
#include <cstring>

#include "quant/stored_matrix.h"

namespace llm {

/// Words of 32 bits in a file, at any address.
class StoredWords {
 public:
  explicit StoredWords(const ConstTensor& tensor) : data_(tensor.data) {}
  uint32_t operator[](int64_t i) const {
    uint32_t word;
    std::memcpy(&word, data_ + i * 4, sizeof word);
    return word;
  }

 private:
  const std::byte* data_;
};

/// Code i of a stream of `bits` each, whose words are `stride` apart from `first` on.
inline uint32_t stream_code(const StoredWords& words, int64_t first, int64_t stride, int64_t i,
                            int bits) {
  const int64_t bit = i * bits;
  const int64_t at = first + bit / 32 * stride;
  const int shift = static_cast<int>(bit % 32);
  uint32_t code = words[at] >> shift;
  if (shift + bits > 32) code |= words[at + stride] << (32 - shift);
  return code & ((1u << bits) - 1);
}

/// Where AWQ keeps output 8 c + j of a word: in nibble kAwqNibble[j].
inline constexpr int kAwqNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};

inline uint32_t awq_code(const StoredWords& words, int64_t words_per_row, int64_t row,
                         int64_t output) {
  return words[row * words_per_row + output / 8] >> 4 * kAwqNibble[output % 8] & 0xf;
}

/// int8 as the unsigned code that it becomes: 128 means 0.
inline uint32_t code_of_int8(std::byte value) { return static_cast<uint32_t>(value) ^ 0x80; }

/// The code of `output` for input channel `channel`, unsigned.
uint32_t stored_code(const StoredMatrix& from, int64_t output, int64_t channel);

/// The zero of `output` in group `group`, in codes as packed; zeros are stored.
int32_t stored_zero(const StoredMatrix& from, int64_t output, int64_t group);

/// The same of its scale.
float stored_scale(const StoredMatrix& from, int64_t output, int64_t group);

}  // namespace llm
