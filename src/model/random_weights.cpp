// Weights without a checkpoint: drawn at random, or shapes alone.
#include <algorithm>

#include "model/weight_source.h"

namespace llm {
namespace {

constexpr float kStandardDeviation = 0.02f;  // transformers' initializer_range
constexpr int64_t kTaskValues = 1 << 18;     // values that one task of the pool draws

/// A bijection of 64-bit words that scatters consecutive ones (SplitMix64's finalizer, Steele,
/// Lea and Flood, OOPSLA 2014).
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Value i of the stream `key`: the sum of a hash's four 16-bit fields, which is near enough to a
/// normal distribution for timing and tests (mean 0, the right variance, at most 3.46 deviations).
float draw(uint64_t key, uint64_t i) {
  const uint64_t h = mix(key + i * 0x9e3779b97f4a7c15u);
  const auto sum =
      static_cast<int32_t>((h & 0xffff) + ((h >> 16) & 0xffff) + ((h >> 32) & 0xffff) + (h >> 48));
  // Four uniforms over 0 .. 65535: mean 4 * 65535 / 2, deviation sqrt(4 * (2^32 - 1) / 12).
  constexpr int32_t kMean = 2 * 65535;
  constexpr float kDeviation = 37837.227f;
  return static_cast<float>(sum - kMean) * (kStandardDeviation / kDeviation);
}

int64_t plain_bytes(const ModelConfig& config) {
  return config.num_parameters() * bits_of(DType::kBF16) / 8;
}

/// Matrices in one buffer, in the order asked for; norms 1, biases drawn like weights.
class RandomSource : public WeightSource {
 public:
  RandomSource(const ModelConfig& config, uint64_t seed, ThreadPool& pool)
      : matrices_(std::make_shared<Buffer>(plain_bytes(config))),
        vectors_(num_vector_values(config)),
        seed_(seed),
        pool_(pool) {}

  Matrix matrix(const std::string&, int64_t rows, int64_t cols) override {
    const Tensor tensor{matrices_->data() + used_, DType::kBF16, Shape{rows, cols}};
    used_ += tensor.bytes();
    LLM_CHECK(used_ <= matrices_->size(), "{} of {} bytes", used_, matrices_->size());
    const uint64_t key = next_key();
    BF16* values = tensor.as<BF16>();
    const int64_t count = rows * cols;
    pool_.parallel_for((count + kTaskValues - 1) / kTaskValues, [&](int64_t task, int) {
      const int64_t end = std::min(count, (task + 1) * kTaskValues);
      for (int64_t i = task * kTaskValues; i < end; ++i) {
        values[i] = to_bf16(draw(key, static_cast<uint64_t>(i)));
      }
    });
    return {ConstTensor(tensor), nullptr};
  }

  const float* vector(const std::string& name, int64_t size) override {
    float* values = vectors_.take(size);
    const bool is_bias = name.size() >= 5 && name.compare(name.size() - 5, 5, ".bias") == 0;
    const uint64_t key = next_key();
    for (int64_t i = 0; i < size; ++i) {
      values[i] = is_bias ? to_float(to_bf16(draw(key, static_cast<uint64_t>(i)))) : 1.0f;
    }
    return values;
  }

  Embeddings embeddings(int64_t vocab_size, int64_t hidden_size, bool tied) override {
    const Matrix table = matrix(kEmbedModule, vocab_size, hidden_size);
    return {table, tied ? table : matrix(kHeadModule, vocab_size, hidden_size), tied};
  }

  std::vector<std::shared_ptr<const void>> storage() const {
    return {matrices_, vectors_.storage()};
  }

 private:
  uint64_t next_key() { return mix(seed_ ^ mix(++tensors_)); }

  std::shared_ptr<Buffer> matrices_;
  FloatStore vectors_;
  uint64_t seed_;
  ThreadPool& pool_;
  int64_t used_ = 0;
  uint64_t tensors_ = 0;
};

class ShapeSource : public WeightSource {
 public:
  Matrix matrix(const std::string&, int64_t rows, int64_t cols) override {
    return {ConstTensor{nullptr, DType::kBF16, Shape{rows, cols}}, nullptr};
  }
  const float* vector(const std::string&, int64_t) override { return nullptr; }
  Embeddings embeddings(int64_t vocab_size, int64_t hidden_size, bool tied) override {
    const Matrix table = matrix(kEmbedModule, vocab_size, hidden_size);
    return {table, table, tied};
  }
};

}  // namespace

DecoderWeights random_weights(const ModelConfig& config, uint64_t seed, ThreadPool& pool) {
  RandomSource source(config, seed, pool);
  DecoderWeights weights = assemble_weights(config, source);
  weights.bytes = plain_bytes(config);
  weights.storage = source.storage();
  return weights;
}

DecoderWeights shape_weights(const ModelConfig& config) {
  ShapeSource source;
  DecoderWeights weights = assemble_weights(config, source);
  weights.bytes = plain_bytes(config);
  return weights;
}

}  // namespace llm
