// exp and silu over the vector types of vec_*.h. Included by the per-instruction-set objects only;
// everything here is local to them.
#pragma once

#include <cstdint>

namespace llm {
namespace {

/// exp(x) for x <= 0; 0 below -87.3, where the result would be subnormal; NaN stays NaN. Error
/// under 2 ulp: x = n ln 2 + r, |r| <= ln 2 / 2, and e^r by its Taylor series to r^7 / 7!.
template <typename V>
typename V::F32 exp_of_nonpositive(typename V::F32 x) {
  const auto n = V::round(V::mul(x, V::set1(1.44269504089f)));
  auto r = V::fma(n, V::set1(-0.693145751953125f), x);  // ln 2, upper bits: n * this is exact
  r = V::fma(n, V::set1(-1.42860682030941723212e-6f), r);
  auto p = V::set1(1.0f / 5040);
  p = V::fma(p, r, V::set1(1.0f / 720));
  p = V::fma(p, r, V::set1(1.0f / 120));
  p = V::fma(p, r, V::set1(1.0f / 24));
  p = V::fma(p, r, V::set1(1.0f / 6));
  p = V::fma(p, r, V::set1(0.5f));
  p = V::fma(p, r, V::set1(1.0f));
  p = V::fma(p, r, V::set1(1.0f));
  // Clamped so that the exponent stays in range where the result is replaced by 0 anyway.
  const auto result = V::scale_by_power(p, V::max(n, V::set1(-126.0f)));
  return V::zero_below(result, x, V::set1(-87.3f));
}

/// g / (1 + exp(-g)), by e = exp(-|g|): g / (1 + e) where g >= 0, g e / (1 + e) where g < 0.
/// Relative error under 4 ulp; below -87.3 the result is -0.
template <typename V>
typename V::F32 silu(typename V::F32 g) {
  const auto e = exp_of_nonpositive<V>(V::minus_abs(g));
  const auto numerator = V::mul(g, V::select_negative(g, e, V::set1(1.0f)));
  return V::div(numerator, V::add(V::set1(1.0f), e));
}

/// y[n] = silu(gate[n]) * up[n]; y may be gate or up.
template <typename V>
void silu_mul(float* y, const float* gate, const float* up, int64_t n) {
  int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) {
    V::store(y + i, V::mul(silu<V>(V::load(gate + i)), V::load(up + i)));
  }
  if (i == n) return;
  // The rest takes the same vector path, so a value doesn't depend on its place in the row.
  float g[V::kLanes] = {}, u[V::kLanes] = {};
  for (int64_t j = i; j < n; ++j) {
    g[j - i] = gate[j];
    u[j - i] = up[j];
  }
  V::store(g, V::mul(silu<V>(V::load(g)), V::load(u)));
  for (int64_t j = i; j < n; ++j) y[j] = g[j - i];
}

}  // namespace
}  // namespace llm
