#include "quant/stored_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "quant/code_reader.h"
#include "quant/word_order.h"

namespace llm {
namespace {

/// Input channels by group, stable; empty where that is their own order.
std::vector<int32_t> order_by_group(const StoredMatrix& from) {
  if (!from.shape.has_order) return {};
  const StoredWords groups(from.g_idx);
  std::vector<int32_t> order(static_cast<size_t>(from.shape.k));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return groups[a] < groups[b]; });
  return order;
}

/// What is wrong with g_idx; sets has_order.
std::string settle_order(StoredMatrix& from) {
  PackedShape& shape = from.shape;
  const StoredWords groups(from.g_idx);
  const int64_t num_groups = shape.num_groups();
  std::vector<int64_t> sizes(static_cast<size_t>(num_groups));
  bool in_order = true;
  for (int64_t channel = 0; channel < shape.k; ++channel) {
    const int64_t group = static_cast<int32_t>(groups[channel]);
    if (group < 0 || group >= num_groups) {
      return fmt::format("channel {} is in group {}, expected 0 to {}", channel, group,
                         num_groups - 1);
    }
    ++sizes[static_cast<size_t>(group)];
    in_order = in_order && group == channel / shape.group_size;
  }
  for (int64_t group = 0; group < num_groups; ++group) {
    const int64_t expected = std::min(shape.group_size, shape.k - group * shape.group_size);
    const int64_t size = sizes[static_cast<size_t>(group)];
    if (size != expected) {
      return fmt::format("group {} has {} channels, expected {}", group, size, expected);
    }
  }
  shape.has_order = !in_order;
  return {};
}

/// Whether all zeros are the same; sets zero then.
void settle_zeros(StoredMatrix& from) {
  const int32_t first = stored_zero(from, 0, 0);
  from.shape.has_zeros = false;
  for (int64_t group = 0; group < from.shape.num_groups(); ++group) {
    for (int64_t output = 0; output < from.shape.n; ++output) {
      if (stored_zero(from, output, group) == first) continue;
      from.shape.has_zeros = true;
      return;
    }
  }
  from.zero = first;
}

/// One panel's codes as bytes and from there as words.
class PanelPacker {
 public:
  PanelPacker(const StoredMatrix& from, const PackedArrays& to, const std::vector<int32_t>& order)
      : from_(from), shape_(from.shape), to_(to), order_(order) {}

  void pack(int64_t panel) const {
    const int64_t first = panel * kPanelOutputs;
    const int64_t outputs = std::min(kPanelOutputs, shape_.n - first);
    const int64_t groups = shape_.num_groups();
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t at = (panel * groups + group) * kPanelOutputs;
      for (int64_t lane = 0; lane < outputs; ++lane) {
        to_.scales[at + lane] = stored_scale(from_, first + lane, group);
        if (shape_.has_zeros) {
          to_.zeros[at + lane] = static_cast<uint8_t>(stored_zero(from_, first + lane, group));
        }
      }
    }
    uint32_t* words = to_.codes + panel * shape_.num_words() * kPanelOutputs;
    for (int64_t word = 0; word < shape_.num_words(); ++word) {
      for (int64_t lane = 0; lane < outputs; ++lane) {
        words[word * kPanelOutputs + lane] = word_of(first + lane, word);
      }
    }
  }

 private:
  uint32_t word_of(int64_t output, int64_t word) const {
    const int64_t per_word = columns_per_word(shape_.type);
    uint32_t bits = 0;
    for (int64_t i = 0; i < per_word; ++i) {
      bits |= code_at(output, word * per_word + i) << shift_in_word(shape_.type, i);
    }
    return bits;
  }

  uint32_t code_at(int64_t output, int64_t column) const {
    if (column >= shape_.k) return padding_code(output);
    const int64_t channel = order_.empty() ? column : order_[static_cast<size_t>(column)];
    return stored_code(from_, output, channel);
  }

  /// The code of columns past the last, which means 0.
  uint32_t padding_code(int64_t output) const {
    if (!shape_.has_zeros) return static_cast<uint32_t>(from_.zero);
    return static_cast<uint32_t>(stored_zero(from_, output, shape_.num_groups() - 1));
  }

  const StoredMatrix& from_;
  const PackedShape& shape_;
  const PackedArrays& to_;
  const std::vector<int32_t>& order_;
};

// Smaller scales have no full precision; rows that small count as zeros.
constexpr float kLeastScale = std::numeric_limits<float>::min();

/// A row rounded to int8: scale = max|w| / 127, 1 for a row of zeros, NaN for one that isn't
/// finite.
void round_row(const StoredMatrix& from, const PackedArrays& to, int64_t output,
               std::vector<float>& values) {
  const PackedShape& shape = from.shape;
  values.assign(static_cast<size_t>(shape.padded_k()), 0.0f);
  widen(values.data(), from.codes.data + output * shape.k * bits_of(from.codes.dtype) / 8,
        from.codes.dtype, shape.k);
  float largest = 0;
  bool finite = true;
  for (const float value : values) {
    largest = std::max(largest, std::fabs(value));
    finite = finite && std::isfinite(value);
  }
  const bool has_scale = finite && largest / 127.0f >= kLeastScale;
  if (!has_scale) values.assign(values.size(), 0.0f);
  const float scale = !finite ? NAN : has_scale ? largest / 127.0f : 1.0f;
  const int64_t panel = output / kPanelOutputs;
  const int64_t lane = output % kPanelOutputs;
  to.scales[panel * kPanelOutputs + lane] = scale;
  uint32_t* words = to.codes + panel * shape.num_words() * kPanelOutputs + lane;
  for (int64_t j = 0; j < shape.padded_k(); ++j) {
    const float value = values[static_cast<size_t>(j)];
    const auto code =
        static_cast<uint32_t>((value == 0 ? 0 : std::lrint(value / scale)) + from.zero);
    words[j / 4 * kPanelOutputs] |= code << shift_in_word(shape.type, j % 4);
  }
}

}  // namespace

std::vector<ConstTensor> StoredMatrix::tensors() const {
  std::vector<ConstTensor> all;
  for (const ConstTensor& tensor : {codes, scales, zeros, g_idx}) {
    if (tensor.data != nullptr) all.push_back(tensor);
  }
  return all;
}

std::string settle(StoredMatrix& from) {
  for (int64_t output = 0; output < from.shape.n; output += from.scale_rows) {
    for (int64_t group = 0; group < from.shape.num_groups(); ++group) {
      const float scale = stored_scale(from, output, group);
      if (scale != 0.0f && std::isfinite(scale)) continue;
      return fmt::format(
          "the scale of output {}, group {} is {}, expected a finite number other "
          "than 0",
          output, group, scale);
    }
  }
  if (from.zeros.data != nullptr) settle_zeros(from);
  return from.g_idx.data != nullptr ? settle_order(from) : std::string();
}

PackedMatrix pack(const StoredMatrix& from, std::byte* memory, ThreadPool& pool) {
  const PackedShape& shape = from.shape;
  const PackedArrays to = arrays_in(shape, memory);
  const std::vector<int32_t> order = order_by_group(from);
  std::copy(order.begin(), order.end(), to.input_order);
  const PanelPacker packer(from, to, order);
  pool.parallel_for(shape.num_panels(), [&](int64_t panel, int) {
    if (from.layout != StoredLayout::kPlainRows) {
      packer.pack(panel);
      return;
    }
    std::vector<float> values;
    const int64_t end = std::min(shape.n, (panel + 1) * kPanelOutputs);
    for (int64_t output = panel * kPanelOutputs; output < end; ++output) {
      round_row(from, to, output, values);
    }
  });
  return view_of(shape, memory, from.zero);
}

}  // namespace llm
