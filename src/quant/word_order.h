// Where a column's code lies in its word (packed_matrix.h).
#pragma once

#include <cstdint>

#include "quant/packed_matrix.h"

namespace llm {

/// The lowest bit of the code of column i of a word.
constexpr int shift_in_word(CodeType type, int64_t i) {
  return static_cast<int>(i % 2 * 16 + i / 2 * bits_of(type));
}

}  // namespace llm
