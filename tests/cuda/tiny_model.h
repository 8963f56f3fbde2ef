// For tests: the built-in model on a device, through the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/session.h"

namespace llm {

using Ids = std::vector<int32_t>;

struct EngineSetting {
  int64_t max_num_seqs = 4;
  int64_t prefill_chunk = 32;
  int64_t cache_tokens = 6144;
  bool prefix_cache = false;
  DType kv_dtype = DType::kBF16;
  bool draft = false;
  bool ignore_eos = false;
  SamplingParams sampling = {};
  /// Ids go through the host before the next step is asked for.
  bool wait_for_ids = false;
};

struct Answer {
  Ids ids;
  std::vector<GeneratedLogprobs> logprobs;  // two most probable of each
  int64_t cached_tokens = 0;
  int64_t accepted = 0;

  bool same_bits(const Answer& other) const {
    if (ids != other.ids || logprobs.size() != other.logprobs.size()) return false;
    for (size_t i = 0; i < logprobs.size(); ++i) {
      if (logprobs[i].chosen.logprob != other.logprobs[i].chosen.logprob) return false;
    }
    return true;
  }
};

/// The built-in model on one device.
class TinyModel {
 public:
  static constexpr int64_t kContext = 1536;

  explicit TinyModel(Device device, bool invariant = false, const CudaTuning& tuning = {});

  std::vector<Answer> run(const std::vector<Ids>& prompts, int64_t max_tokens,
                          const EngineSetting& setting);
  int64_t num_preemptions() const { return num_preemptions_; }

  std::unique_ptr<Engine> make_engine(const EngineSetting& setting);
  /// Without log-probabilities.
  Request request(const Ids& prompt, int64_t max_tokens, const EngineSetting& setting) const;
  int64_t num_layers() const { return files_.config.num_hidden_layers; }
  const Decoder& decoder() const { return model_->decoder(); }

 private:
  ModelFiles files_;
  std::unique_ptr<LoadedModel> model_;
  int64_t num_preemptions_ = 0;
};

/// Prompts of the goldens of the built-in model, every `step`-th.
std::vector<Ids> tiny_prompts(size_t step);

}  // namespace llm
