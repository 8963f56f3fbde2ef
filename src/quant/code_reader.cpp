#include "quant/code_reader.h"

#include "base/error.h"

namespace llm {
namespace {

/// Ones at the lowest bits of all codes of a word: what GPTQModel's v1 takes from it.
uint32_t ones_of(int bits) {
  switch (bits) {
    case 2:
      return 0x55555555u;
    case 4:
      return 0x11111111u;
    default:
      return 0x01010101u;
  }
}

int32_t gptq_zero(const StoredMatrix& from, int64_t output, int64_t group) {
  const StoredWords words(from.zeros);
  const int bits = from.bits;
  const int64_t first = group * (from.shape.n * bits / 32);
  const uint32_t mask = (1u << bits) - 1;
  // Codes of 3 bits straddle words, so GPTQModel takes one from each.
  if (from.zero_rule == ZeroRule::kMinusOneInWord && bits != 3) {
    const int64_t bit = output * bits;
    const uint32_t word = words[first + bit / 32] + ones_of(bits);
    return static_cast<int32_t>(word >> bit % 32 & mask);
  }
  const uint32_t code = stream_code(words, first, 1, output, bits);
  const uint32_t added = from.zero_rule == ZeroRule::kAsStored ? 0 : 1;
  return static_cast<int32_t>((code + added) & mask);
}

}  // namespace

uint32_t stored_code(const StoredMatrix& from, int64_t output, int64_t channel) {
  const int64_t n = from.shape.n;
  const int64_t k = from.shape.k;
  switch (from.layout) {
    case StoredLayout::kGptq:
      return stream_code(StoredWords(from.codes), output, n, channel, from.bits);
    case StoredLayout::kAwq:
      return awq_code(StoredWords(from.codes), n / 8, channel, output);
    case StoredLayout::kPackedRows:
      return stream_code(StoredWords(from.codes), output * ((k * from.bits + 31) / 32), 1, channel,
                         from.bits);
    case StoredLayout::kRows: {
      const std::byte code = from.codes.data[output * k + channel];
      return from.codes.dtype == DType::kI8 ? code_of_int8(code) : static_cast<uint32_t>(code);
    }
    case StoredLayout::kPlainRows:
      break;
  }
  bug("layout", "plain rows hold no codes");
}

int32_t stored_zero(const StoredMatrix& from, int64_t output, int64_t group) {
  switch (from.layout) {
    case StoredLayout::kGptq:
      return gptq_zero(from, output, group);
    case StoredLayout::kAwq:
      return static_cast<int32_t>(
          awq_code(StoredWords(from.zeros), from.shape.n / 8, group, output));
    case StoredLayout::kPackedRows: {
      const int64_t groups = from.shape.num_groups();
      return static_cast<int32_t>(
          stream_code(StoredWords(from.zeros), group, groups, output, from.bits));
    }
    default: {
      const int64_t at = output / from.scale_rows * from.shape.num_groups() + group;
      return static_cast<int32_t>(code_of_int8(from.zeros.data[at]));
    }
  }
}

float stored_scale(const StoredMatrix& from, int64_t output, int64_t group) {
  const bool by_group = from.layout == StoredLayout::kGptq || from.layout == StoredLayout::kAwq;
  const int64_t at = by_group ? group * from.shape.n + output
                              : output / from.scale_rows * from.shape.num_groups() + group;
  float scale;
  widen(&scale, from.scales.data + at * bits_of(from.scales.dtype) / 8, from.scales.dtype, 1);
  return scale;
}

}  // namespace llm
