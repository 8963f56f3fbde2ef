// For tests of the matrix products on the GPU: inputs, references in double with bounds of what
// float32 sums may differ by, and outputs whose surroundings are watched.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "cuda/kernels.h"
#include "cuda_test.h"
#include "reference.h"

namespace llm {

/// Values around 0, mostly within `scale`, the same for the same seed on every machine.
inline std::vector<float> random_floats(size_t size, uint32_t seed, float scale = 1) {
  std::mt19937 engine(seed);
  std::vector<float> values(size);
  for (float& v : values) {
    // The sum of three uniform numbers: near to normal.
    float sum = 0;
    for (int i = 0; i < 3; ++i) sum += static_cast<float>(engine() >> 8) * 0x1p-23f - 1;
    v = scale * sum;
  }
  return values;
}

inline std::vector<bf16> to_bf16(const std::vector<float>& values) {
  std::vector<bf16> rounded;
  for (const float v : values) rounded.push_back(__float2bfloat16_rn(v));
  return rounded;
}

inline std::vector<float> to_floats(const std::vector<bf16>& values) {
  std::vector<float> floats;
  for (const bf16 v : values) floats.push_back(__bfloat162float(v));
  return floats;
}
inline std::vector<float> to_floats(const std::vector<float>& values) { return values; }

inline std::vector<bf16> random_bf16(size_t size, uint32_t seed, float scale = 1) {
  return to_bf16(random_floats(size, seed, scale));
}

/// A value that may be off by `bound`.
struct Approx {
  double value = 0;
  double bound = 0;
};

inline bool agrees(float actual, const Approx& expected) {
  if (std::isnan(expected.value)) return std::isnan(actual);
  if (std::isinf(expected.value)) return actual == expected.value;
  return std::fabs(actual - expected.value) <= expected.bound;
}

inline constexpr double kFloatEpsilon = 0x1p-23;
inline constexpr double kBf16Rounding = 0x1p-8;  // relative

/// One output of x W^T: products of BF16 are exact in float32. A tensor core adds at least 8 of
/// them at a time, truncating at most one unit in the last place of the largest for each; what
/// follows (warps, slices, bias, residual) are at most 12 roundings. None is larger than
/// 2^-23 of the sum of all magnitudes.
inline Approx expected_sum(const bf16* x, const bf16* w, int k, double addend) {
  Approx y{addend, std::fabs(addend)};
  for (int i = 0; i < k; ++i) {
    const double product = double{__bfloat162float(x[i])} * __bfloat162float(w[i]);
    y.value += product;
    y.bound += std::fabs(product);
  }
  y.bound *= kFloatEpsilon * (k / 8 + 12);
  return y;
}

/// BF16 of silu(gate) * up. silu's slope is at most 1.1; its error on the GPU is that of silu() in
/// device_utils.cuh, and 3 more roundings.
inline Approx expected_silu_mul(const Approx& gate, const Approx& up) {
  const double s = reference::silu(gate.value);
  const double value = s * up.value;
  const double relative = (8 + std::fabs(gate.value)) * kFloatEpsilon;
  const double bound = 1.1 * gate.bound * (std::fabs(up.value) + up.bound) +
                       std::fabs(s) * up.bound + std::fabs(value) * relative;
  // Below -87.3 the kernel's silu may be 0 in place of what is less than 2^-119.
  const double vanished = gate.value < -87 ? 0x1p-119 * (std::fabs(up.value) + up.bound) : 0;
  return {value, bound + kBf16Rounding * (std::fabs(value) + bound) + 0x1p-126 + vanished};
}

/// RMSNorm rounded to BF16: the sum of squares takes width / 256 + 13 roundings in a row, whose
/// error the root halves; 6 more follow.
inline std::vector<Approx> expected_norm(const float* x, const float* weight, int width,
                                         double eps) {
  const reference::Vector y = reference::rms_norm(reference::Vector(x, x + width),
                                                  reference::Vector(weight, weight + width), eps);
  const double relative = (width / 256 + 20) * kFloatEpsilon;
  std::vector<Approx> expected;
  for (const double v : y) {
    expected.push_back({v, std::fabs(v) * (kBf16Rounding + 2 * relative)});
  }
  return expected;
}

/// An output on the device between two margins that nobody may write to.
template <typename T>
class WatchedOutput {
 public:
  explicit WatchedOutput(size_t size) : WatchedOutput(std::vector<T>(size)) {
    // Not a number, until it is written.
    LLM_CUDA(cudaMemset(data(), 0xff, size * sizeof(T)));
  }
  explicit WatchedOutput(const std::vector<T>& values)
      : size_(values.size()), array_(values.size() + 2 * kMargin) {
    array_.fill(kMarginByte);
    if (size_ == 0) return;
    LLM_CUDA(cudaMemcpy(data(), values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }

  T* data() { return array_.data() + kMargin; }

  /// Waits, checks the margins.
  std::vector<T> host() const {
    const std::vector<T> all = array_.host();
    const std::vector<unsigned char> untouched(kMargin * sizeof(T), kMarginByte);
    CHECK(std::memcmp(all.data(), untouched.data(), untouched.size()) == 0);
    CHECK(std::memcmp(all.data() + kMargin + size_, untouched.data(), untouched.size()) == 0);
    return {all.begin() + kMargin, all.end() - kMargin};
  }

 private:
  static constexpr size_t kMargin = 256;
  static constexpr int kMarginByte = 0xa5;
  size_t size_;
  DeviceArray<T> array_;
};

/// How many of `actual` aren't what is expected; the first is printed.
inline int count_wrong(const std::vector<float>& actual, const std::vector<Approx>& expected) {
  REQUIRE(actual.size() == expected.size());
  int wrong = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (agrees(actual[i], expected[i])) continue;
    if (wrong++ == 0) {
      MESSAGE("element ", i, ": ", actual[i], " instead of ", expected[i].value, " +- ",
              expected[i].bound);
    }
  }
  return wrong;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// Rows first .. first + count - 1.
template <typename T>
std::vector<T> rows_of(const std::vector<T>& matrix, size_t width, size_t first, size_t count) {
  return {matrix.begin() + first * width, matrix.begin() + (first + count) * width};
}

}  // namespace llm
