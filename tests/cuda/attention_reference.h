// Attention over a paged cache in double, from the formula, with roundings to BF16 where kernels.h
// has them: what the kernels are compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "backend/kv_layout.h"
#include "base/dtype.h"
#include "cuda/kernels.h"

namespace llm {

/// Sizes of an attention, and what its cache holds.
struct AttentionShape {
  int group = 1;  // query heads of a KV head
  int num_kv_heads = 1;
  int head_dim = 64;
  KvType kv_type = KvType::kBF16;
  bool has_norms = true;

  int num_heads() const { return group * num_kv_heads; }
  int qkv_width() const { return (num_heads() + 2 * num_kv_heads) * head_dim; }
  int out_width() const { return num_heads() * head_dim; }
  int element_bytes() const { return kv_type == KvType::kBF16 ? 2 : 1; }
  bool has_scales() const { return kv_type != KvType::kBF16; }
  int row_bytes() const { return static_cast<int>(padded_head_dim(head_dim)) * element_bytes(); }
  int64_t head_bytes() const {
    return kKvBlockSize * (row_bytes() + (has_scales() ? static_cast<int>(sizeof(float)) : 0));
  }
  int64_t block_bytes() const { return num_kv_heads * head_bytes(); }
};

namespace attention_reference {

using Values = std::vector<double>;

inline double round_bf16(double x) { return to_float(to_bf16(static_cast<float>(x))); }

/// A head of a row: normed (if there are weights) and rotated by the tables' row of its position.
inline Values normed_and_rotated(const float* x, const float* norm, float eps, const float* cos,
                                 const float* sin, int head_dim) {
  Values y(x, x + head_dim);
  if (norm != nullptr) {
    double squares = 0;
    for (double v : y) squares += v * v;
    const double scale = 1 / std::sqrt(squares / head_dim + eps);
    for (int i = 0; i < head_dim; ++i) y[i] *= scale * norm[i];
  }
  const int half = head_dim / 2;
  for (int i = 0; i < half; ++i) {
    const double a = y[i];
    const double b = y[half + i];
    y[i] = a * cos[i] - b * sin[i];
    y[half + i] = b * cos[i] + a * sin[i];
  }
  return y;
}

/// The bytes of a KV head of a token in a plane, and its scale.
struct TokenBytes {
  const uint8_t* elements;
  const uint8_t* scale;  // 8-bit types only
};

inline TokenBytes token_bytes(const std::vector<uint8_t>& plane, const AttentionShape& shape,
                              int slot, int kv_head) {
  const uint8_t* head =
      plane.data() + slot / kKvBlockSize * shape.block_bytes() + kv_head * shape.head_bytes();
  const int offset = slot % kKvBlockSize;
  return {head + offset * shape.row_bytes(),
          head + kKvBlockSize * shape.row_bytes() + offset * sizeof(float)};
}

inline double element_value(const AttentionShape& shape, const uint8_t* elements, int i) {
  switch (shape.kv_type) {
    case KvType::kBF16: {
      uint16_t bits;
      std::memcpy(&bits, elements + 2 * i, sizeof bits);
      return to_float(BF16{bits});
    }
    case KvType::kF8E4M3:
      return to_float(F8E4M3{elements[i]});
    case KvType::kI8:
      return static_cast<int8_t>(elements[i]);
  }
  return 0;
}

inline float token_scale(const AttentionShape& shape, TokenBytes token) {
  float scale = 1;
  if (shape.has_scales()) std::memcpy(&scale, token.scale, sizeof scale);
  return scale;
}

/// A token's key or value as it is cached: elements and scale apart.
struct CachedToken {
  Values elements;
  double scale;
};

inline CachedToken cached_token(const std::vector<uint8_t>& plane, const AttentionShape& shape,
                                int slot, int kv_head) {
  const TokenBytes bytes = token_bytes(plane, shape, slot, kv_head);
  CachedToken token{Values(shape.head_dim), token_scale(shape, bytes)};
  for (int i = 0; i < shape.head_dim; ++i) {
    token.elements[i] = element_value(shape, bytes.elements, i);
  }
  return token;
}

struct Expected {
  Values out;
  Values tolerance;  // how far from it a kernel may be
};

/// softmax(query keys^T) values for one query that is already scaled and rounded.
///
/// Tolerance. A weight is rounded to BF16, which moves it by up to 2^-9 of itself; so does the
/// result. A query's element that float32 puts on the other side of a rounding border is off by
/// 2^-8 of itself; some in ten thousand are, so that two in one product are already rare. A product
/// is summed in float32 in any order: head_dim 2^-23 of the sum of magnitudes. An error e of scores
/// moves weight and sum by a factor of 1 + e each.
inline Expected attend(const Values& query, const std::vector<CachedToken>& keys,
                       const std::vector<CachedToken>& values) {
  const size_t head_dim = query.size();
  Values weights(keys.size());
  double maximum = -INFINITY;
  double score_error = 0;
  for (size_t t = 0; t < keys.size(); ++t) {
    double sum = 0;
    double magnitudes = 0;
    double largest = 0;
    for (size_t d = 0; d < head_dim; ++d) {
      const double product = query[d] * keys[t].elements[d];
      sum += product;
      magnitudes += std::abs(product);
      largest = std::max(largest, std::abs(product));
    }
    weights[t] = sum * keys[t].scale;
    maximum = std::max(maximum, weights[t]);
    const double of_sum = static_cast<double>(head_dim) * 0x1p-23 * magnitudes;
    score_error = std::max(score_error, (2 * 0x1p-8 * largest + of_sum) * keys[t].scale);
  }
  double total = 0;
  for (double& w : weights) {
    w = std::exp(w - maximum);
    total += w;
  }
  Expected expected{Values(head_dim), Values(head_dim)};
  for (size_t d = 0; d < head_dim; ++d) {
    double magnitudes = 0;
    for (size_t t = 0; t < keys.size(); ++t) {
      const double part = weights[t] / total * values[t].elements[d] * values[t].scale;
      expected.out[d] += part;
      magnitudes += std::abs(part);
    }
    expected.tolerance[d] =
        (0x1p-9 + 2 * score_error + 1e-5) * magnitudes + 0x1p-9 * std::abs(expected.out[d]);
  }
  return expected;
}

}  // namespace attention_reference
}  // namespace llm
