// The operations in double precision, written for clarity: what every backend is compared with.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace llm::reference {

using Vector = std::vector<double>;

/// x / sqrt(mean(x^2) + eps) * weight.
inline Vector rms_norm(const Vector& x, const Vector& weight, double eps) {
  double squares = 0;
  for (double v : x) squares += v * v;
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weight[i];
  return y;
}

/// W[n, k] x + bias; bias may be empty.
inline Vector linear(const Vector& x, const Vector& w, const Vector& bias) {
  const size_t k = x.size();
  const size_t n = w.size() / k;
  Vector y(n);
  for (size_t i = 0; i < n; ++i) {
    double sum = bias.empty() ? 0.0 : bias[i];
    for (size_t j = 0; j < k; ++j) sum += w[i * k + j] * x[j];
    y[i] = sum;
  }
  return y;
}

inline double silu(double x) { return x / (1.0 + std::exp(-x)); }

/// Turns the pairs (x[i], x[i + half]) of one head by position * inv_freq[i].
inline Vector rotate(const Vector& x, double position, const Vector& inv_freq) {
  const size_t half = x.size() / 2;
  Vector y(x.size());
  for (size_t i = 0; i < half; ++i) {
    const double c = std::cos(position * inv_freq[i]);
    const double s = std::sin(position * inv_freq[i]);
    y[i] = x[i] * c - x[i + half] * s;
    y[i + half] = x[i + half] * c + x[i] * s;
  }
  return y;
}

/// softmax(q k^T / sqrt(head_dim)) v for one query over all given keys.
inline Vector attend(const Vector& q, const std::vector<Vector>& keys,
                     const std::vector<Vector>& values) {
  Vector scores(keys.size());
  double maximum = -INFINITY;
  for (size_t t = 0; t < keys.size(); ++t) {
    double dot = 0;
    for (size_t d = 0; d < q.size(); ++d) dot += q[d] * keys[t][d];
    scores[t] = dot / std::sqrt(static_cast<double>(q.size()));
    maximum = std::fmax(maximum, scores[t]);
  }
  double total = 0;
  Vector out(q.size());
  for (size_t t = 0; t < keys.size(); ++t) {
    const double p = std::exp(scores[t] - maximum);
    total += p;
    for (size_t d = 0; d < q.size(); ++d) out[d] += p * values[t][d];
  }
  for (double& v : out) v /= total;
  return out;
}

}  // namespace llm::reference
