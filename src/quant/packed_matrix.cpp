#include "quant/packed_matrix.h"

#include <fmt/format.h>

#include "base/dtype.h"
#include "quant/word_order.h"

namespace llm {
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

int64_t PackedShape::bytes() const {
  return aligned(code_bytes()) + aligned(scale_bytes()) + aligned(zero_bytes()) + order_bytes();
}

PackedArrays arrays_in(const PackedShape& shape, std::byte* memory) {
  PackedArrays arrays;
  arrays.codes = reinterpret_cast<uint32_t*>(memory);
  memory += aligned(shape.code_bytes());
  arrays.scales = reinterpret_cast<float*>(memory);
  memory += aligned(shape.scale_bytes());
  if (shape.has_zeros) arrays.zeros = reinterpret_cast<uint8_t*>(memory);
  memory += aligned(shape.zero_bytes());
  if (shape.has_order) arrays.input_order = reinterpret_cast<int32_t*>(memory);
  return arrays;
}

PackedMatrix view_of(const PackedShape& shape, const std::byte* memory, int32_t zero) {
  const PackedArrays arrays = arrays_in(shape, const_cast<std::byte*>(memory));
  return {shape, arrays.codes, arrays.scales, arrays.zeros, zero, arrays.input_order};
}

std::string type_text(const PackedShape& shape) {
  const std::string codes =
      shape.type == CodeType::kF8E4M3 ? "FP8" : fmt::format("{}-bit", bits_of(shape.type));
  if (shape.group_size >= shape.k) return codes + " per output";
  return fmt::format("{}, groups of {}", codes, shape.group_size);
}

void unpack_row(float* to, const PackedMatrix& matrix, int64_t output) {
  const PackedShape& shape = matrix.shape;
  const int64_t panel = output / kPanelOutputs;
  const int64_t lane = output % kPanelOutputs;
  const uint32_t mask = (1u << bits_of(shape.type)) - 1;
  for (int64_t j = 0; j < shape.k; ++j) {
    const int64_t group =
        (panel * shape.num_groups() + j / shape.group_size) * kPanelOutputs + lane;
    const int64_t word =
        (panel * shape.num_words() + j / columns_per_word(shape.type)) * kPanelOutputs + lane;
    const uint32_t code =
        matrix.codes[word] >> shift_in_word(shape.type, j % columns_per_word(shape.type)) & mask;
    float value;
    if (shape.type == CodeType::kF8E4M3) {
      value = to_float(F8E4M3{static_cast<uint8_t>(code)});
    } else {
      const int zero = matrix.zeros == nullptr ? matrix.zero : matrix.zeros[group];
      value = static_cast<float>(static_cast<int>(code) - zero);
    }
    to[matrix.input_order == nullptr ? j : matrix.input_order[j]] = value * matrix.scales[group];
  }
}

}  // namespace llm
