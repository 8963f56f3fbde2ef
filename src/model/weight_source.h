// The decoder's tensors listed once, whoever provides them: a checkpoint, a generator, nobody.
#pragma once

#include <cstdint>
#include <string>

#include "model/weights.h"

namespace llm {

/// Provides tensors by their name in Hugging Face checkpoints, each exactly once.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// A weight [rows, cols], and what it is to be packed from if it is.
  struct Matrix {
    Weight weight;
    std::shared_ptr<const StoredMatrix> stored;
  };
  /// The weight of a module ("model.layers.0.mlp.up_proj").
  virtual Matrix matrix(const std::string& module, int64_t rows, int64_t cols) = 0;
  /// A bias or norm weight [size] as float32.
  virtual const float* vector(const std::string& name, int64_t size) = 0;
  /// Embedding table and weight of the head, each [vocab_size, hidden_size].
  struct Embeddings {
    Matrix table;
    Matrix head;
    bool shared = false;  // the two are one matrix
  };
  virtual Embeddings embeddings(int64_t vocab_size, int64_t hidden_size, bool tied) = 0;
};

/// Asks the source for every tensor that the config implies, and puts it into its slot.
DecoderWeights assemble_weights(const ModelConfig& config, WeightSource& source);

/// Float32 values that the vectors of such a model need: norms and biases.
int64_t num_vector_values(const ModelConfig& config);

/// Memory for norms and biases, handed out piece by piece.
class FloatStore {
 public:
  explicit FloatStore(int64_t capacity)
      : buffer_(std::make_shared<Buffer>(capacity * static_cast<int64_t>(sizeof(float)))),
        capacity_(capacity) {}

  /// The next `count` zeros.
  float* take(int64_t count) {
    LLM_CHECK(used_ + count <= capacity_, "{} + {} of {}", used_, count, capacity_);
    float* result = reinterpret_cast<float*>(buffer_->data()) + used_;
    used_ += count;
    return result;
  }
  std::shared_ptr<const void> storage() const { return buffer_; }

 private:
  std::shared_ptr<Buffer> buffer_;
  int64_t capacity_;
  int64_t used_ = 0;
};

inline constexpr const char* kEmbedModule = "model.embed_tokens";
inline constexpr const char* kHeadModule = "lm_head";

}  // namespace llm
