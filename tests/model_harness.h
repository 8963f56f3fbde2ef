// A model folder ready to run, for tests that compare logits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda.h"
#include "base/cpu_info.h"
#include "base/thread_pool.h"
#include "model/decoder.h"

namespace llm {

/// Row-major logits [T, vocab_size] of T positions.
using Logits = std::vector<float>;

class RunningModel {
 public:
  struct Options {
    Isa isa = choose_isa();
    int threads = 2;
    ActDType act = ActDType::kF32;
    DType kv_dtype = DType::kF32;
    int64_t capacity = 1024;               // tokens
    std::optional<CudaOptions> cuda = {};  // on a GPU; then BF16 activations
  };
  RunningModel(const std::filesystem::path& model_dir, const Options& options);

  /// Logits of all positions of a new sequence, its tokens given in chunks of these sizes (all at
  /// once if empty).
  Logits logits(std::span<const int32_t> ids, std::span<const int64_t> chunks = {});

  /// Continuation of `count` ids by arg-max, the lowest id on a tie.
  std::vector<int32_t> greedy(std::span<const int32_t> ids, int64_t count);

  const ModelConfig& config() const { return decoder_->config(); }

 private:
  /// Appends the rows to the sequence of `length` tokens; wanted: logits of which of them. A single
  /// row after others decodes.
  ConstTensor step(std::span<const int32_t> ids, int64_t length, std::span<const int32_t> wanted);

  ThreadPool pool_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<KvCache> cache_;
  std::vector<int32_t> block_table_;
};

/// Index of the largest value, the lowest on a tie.
int32_t arg_max(std::span<const float> row);

/// True if both hold the same bits.
bool same_bits(const Logits& a, const Logits& b);

}  // namespace llm
