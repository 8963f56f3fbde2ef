// Rotary frequencies, in float32 wherever transformers' modeling_rope_utils.py has float32 tensors
// and in double where it has Python numbers.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "model/model_config.h"

namespace llm {
namespace {

/// theta^(2i / head_dim), the base of all types. Rounded once from double.
float position_frequency(const RopeConfig& rope, int64_t i, int64_t head_dim) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
  return static_cast<float>(
      std::pow(static_cast<double>(static_cast<float>(rope.theta)), static_cast<double>(exponent)));
}

/// Llama 3.1: long wavelengths are divided by the factor, short ones kept, those between blended.
float llama3_frequency(const RopeConfig& rope, float inv_freq) {
  const auto factor = static_cast<float>(rope.factor);
  const double original = rope.original_max_position_embeddings;
  const auto longest = static_cast<float>(original / rope.low_freq_factor);
  const auto shortest = static_cast<float>(original / rope.high_freq_factor);
  const float wavelength = static_cast<float>(2 * std::numbers::pi) / inv_freq;
  if (wavelength > longest) return inv_freq / factor;
  if (wavelength < shortest) return inv_freq;
  const float smooth =
      (static_cast<float>(original) / wavelength - static_cast<float>(rope.low_freq_factor)) /
      static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * inv_freq / factor + smooth * inv_freq;
}

/// The pair that turns `rotations` times over the original length (YaRN, arXiv 2309.00071).
double yarn_pair(const RopeConfig& rope, double rotations, int64_t head_dim) {
  return static_cast<double>(head_dim) *
         std::log(rope.original_max_position_embeddings / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

/// YaRN: fast pairs are kept, slow ones divided by the factor, with a linear ramp between.
void apply_yarn(const RopeConfig& rope, int64_t head_dim, std::vector<float>& inv_freq) {
  double low = yarn_pair(rope, rope.beta_fast, head_dim);
  double high = yarn_pair(rope, rope.beta_slow, head_dim);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;  // the reference's guard against a division by zero
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const float frequency = position_frequency(rope, static_cast<int64_t>(i), head_dim);
    const float ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f,
        1.0f);
    const float kept = 1 - ramp;
    const float interpolated = 1.0f / (static_cast<float>(rope.factor) * frequency);
    inv_freq[i] = interpolated * (1 - kept) + inv_freq[i] * kept;
  }
}

}  // namespace

std::vector<float> rope_inv_freq(const RopeConfig& rope, int64_t head_dim) {
  LLM_CHECK(head_dim > 0 && head_dim % 2 == 0, "head_dim {}", head_dim);
  std::vector<float> inv_freq(static_cast<size_t>(head_dim / 2));
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    inv_freq[i] = 1.0f / position_frequency(rope, static_cast<int64_t>(i), head_dim);
  }
  switch (rope.type) {
    case RopeType::kDefault:
      break;
    case RopeType::kLinear:
      for (float& f : inv_freq) f /= static_cast<float>(rope.factor);
      break;
    case RopeType::kLlama3:
      for (float& f : inv_freq) f = llama3_frequency(rope, f);
      break;
    case RopeType::kYarn:
      apply_yarn(rope, head_dim, inv_freq);
      break;
  }
  return inv_freq;
}

}  // namespace llm
