// A quantized module as its checkpoint holds it: views of its tensors, and how they are to be read.
// Sources of the layouts: the writers AutoAWQ 0.2.9, GPTQModel 7.7.0, compressed-tensors 0.20.1 and
// transformers 5.24 (FP8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "base/thread_pool.h"
#include "quant/packed_matrix.h"

namespace llm {

/// How codes lie. b = bits, G = groups; words are 32 bits, little-endian, filled from the lowest
/// bits.
enum class StoredLayout : uint8_t {
  /// codes I32 [k b / 32, n], one bit stream down each column; zeros I32 [G, n b / 32], one along
  /// each row; scales [G, n]; g_idx I32 [k].
  kGptq,
  /// codes I32 [k, n / 8], eight outputs a word in nibbles 0 4 1 5 2 6 3 7; zeros I32 [G, n / 8]
  /// likewise; scales [G, n].
  kAwq,
  /// codes I32 [n, k b / 32], one bit stream along each row; zeros I32 [n b / 32, G], one down each
  /// column; scales [n, G]; g_idx I32 [k].
  kPackedRows,
  /// codes I8 or F8_E4M3 [n, k]; zeros I8 like the scales; scales [ceil(n / scale_rows), G].
  kRows,
  /// codes F32, F16 or BF16 [n, k], which are rounded to 8 bits here: scale = max|w| / 127 per row.
  kPlainRows,
};

/// What stored zeros mean.
enum class ZeroRule : uint8_t {
  kAsStored,
  /// One less than the zero, each code for itself: (code + 1) mod 2^b. AutoGPTQ.
  kMinusOne,
  /// The packed ones were subtracted from whole words, with borrows. GPTQModel's v1.
  kMinusOneInWord,
};

struct StoredMatrix {
  StoredLayout layout = StoredLayout::kRows;
  /// What it becomes; settle() sets has_zeros and has_order.
  PackedShape shape;
  int bits = 8;
  /// Rows that share a scale: more than one for blocks (128) and for one scale of all (n).
  int64_t scale_rows = 1;
  ZeroRule zero_rule = ZeroRule::kAsStored;
  /// The zero of all codes where none are stored, in codes as packed (unsigned).
  int32_t zero = 0;
  ConstTensor codes;
  ConstTensor scales;  // F32, F16 or BF16
  ConstTensor zeros;   // data null: none
  ConstTensor g_idx;   // data null: none

  /// The tensors that are read.
  std::vector<ConstTensor> tensors() const;
};

/// Looks at what the tensors hold: sets has_zeros (false with `zero` where all zeros are equal) and
/// has_order (g_idx is other than k / group_size). Returns what is wrong with scales (0, not
/// finite) or g_idx (no such group, groups of other sizes); empty if nothing. Not for kPlainRows.
std::string settle(StoredMatrix& from);

/// Unpacks into `memory` of from.shape.bytes(), zero-filled and aligned to 64 bytes.
PackedMatrix pack(const StoredMatrix& from, std::byte* memory, ThreadPool& pool);

}  // namespace llm
