// Quantized weights as the kernels read them. Every checkpoint format is unpacked into this layout
// once, on load; nothing behind it knows the format.
//
//   w[o][j] = (code[o][j] - zero[o][g]) * scale[o][g],  g = j / group_size     (kU4, kU8)
//   w[o][j] = value(code[o][j]) * scale[o][g]                                  (kF8E4M3)
//
// for output o and column j. Column j is input channel input_order[j] where that is set (GPTQ's
// act-order: columns are sorted by group), else input channel j.
//
// LAYOUT. Outputs go in panels of 16, columns in words of 32 bits; a word holds 8 (kU4) or 4 (kU8,
// kF8E4M3) consecutive columns of one output, those with even numbers in its low half, ascending
// from the lowest bits, those with odd numbers in its high half:
//   kU4            bits  0..15: columns 0 2 4 6     bits 16..31: columns 1 3 5 7
//   kU8, kF8E4M3   bits  0..15: columns 0 2         bits 16..31: columns 1 3
// so that (word >> 4 i) & 0x000f000f and (word >> 8 i) & 0x00ff00ff are a pair of columns as dot
// products of two take them.
//   codes  [panels][words][16] uint32     scales [panels][groups][16] float32
//   zeros  [panels][groups][16] uint8     or one zero for all
// A panel's codes are one stream over ascending columns. 16 rows by 128 columns of kU4 are 1024
// bytes, of which a GPU's tensor-core order is a permutation of words.
// Columns are filled up to a multiple of kColumnUnit with codes that mean 0, outputs to a multiple
// of 16 with scales of 0.
#pragma once

#include <cstdint>
#include <string>

namespace llm {

enum class CodeType : uint8_t { kU4, kU8, kF8E4M3 };

/// Outputs of a panel.
inline constexpr int64_t kPanelOutputs = 16;
/// Columns of a matrix are filled up to a multiple of this; groups are multiples of it.
inline constexpr int64_t kColumnUnit = 8;

constexpr int bits_of(CodeType type) { return type == CodeType::kU4 ? 4 : 8; }
/// Columns of a 32-bit word.
constexpr int64_t columns_per_word(CodeType type) { return 32 / bits_of(type); }

/// What a packed matrix is made of; the sizes of its arrays follow.
struct PackedShape {
  CodeType type = CodeType::kU4;
  int64_t n = 0;           // outputs
  int64_t k = 0;           // input channels
  int64_t group_size = 0;  // columns that share a scale, the last group maybe fewer; k: all
  bool has_zeros = false;  // a zero for each scale
  bool has_order = false;  // columns are not in the order of the input channels

  int64_t num_panels() const { return (n + kPanelOutputs - 1) / kPanelOutputs; }
  int64_t num_groups() const { return (k + group_size - 1) / group_size; }
  int64_t padded_k() const { return (k + kColumnUnit - 1) / kColumnUnit * kColumnUnit; }
  /// Words of one output.
  int64_t num_words() const { return padded_k() / columns_per_word(type); }
  int64_t code_bytes() const { return num_panels() * num_words() * kPanelOutputs * 4; }
  int64_t scale_bytes() const { return num_panels() * num_groups() * kPanelOutputs * 4; }
  int64_t zero_bytes() const { return has_zeros ? num_panels() * num_groups() * kPanelOutputs : 0; }
  int64_t order_bytes() const { return has_order ? k * 4 : 0; }
  /// Of all arrays, each begun at a multiple of 64 bytes, in the order codes, scales, zeros, order.
  int64_t bytes() const;
};

/// A view of a packed matrix. Arrays begin at multiples of 64 bytes.
struct PackedMatrix {
  PackedShape shape;
  const uint32_t* codes = nullptr;       // [panels][words][16]
  const float* scales = nullptr;         // [panels][groups][16]
  const uint8_t* zeros = nullptr;        // [panels][groups][16]; null: `zero` everywhere
  int32_t zero = 0;                      // 0 for kF8E4M3
  const int32_t* input_order = nullptr;  // [k]: the input channel of each column; null: j
};

/// The same, to be written.
struct PackedArrays {
  uint32_t* codes = nullptr;
  float* scales = nullptr;
  uint8_t* zeros = nullptr;
  int32_t* input_order = nullptr;
};

/// The arrays of such a matrix in `memory` of shape.bytes(), aligned to 64 bytes.
PackedArrays arrays_in(const PackedShape& shape, std::byte* memory);
/// The view of them.
PackedMatrix view_of(const PackedShape& shape, const std::byte* memory, int32_t zero);

/// "4-bit, groups of 128", "8-bit per output", "FP8, groups of 128".
std::string type_text(const PackedShape& shape);

/// Dequantizes row `output` to float32 in the order of the input channels: [k].
void unpack_row(float* to, const PackedMatrix& matrix, int64_t output);

}  // namespace llm
