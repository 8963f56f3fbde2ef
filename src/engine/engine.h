// Runs requests: each step() is one forward pass over the rows that the scheduler chose, then one
// new token for each sequence whose ids are all in the cache.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/batch.h"
#include "engine/batch_builder.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "model/decoder.h"

namespace llm {

struct EngineOptions {
  SchedulerOptions scheduler = {};
  int64_t num_cache_tokens = 0;  // that the cache holds over all sequences
  DType kv_dtype = DType::kBF16;
};

class Engine {
 public:
  /// The decoder outlives the engine.
  Engine(Decoder& decoder, const EngineOptions& options);

  /// Refuses (exit code 2) a prompt that is empty or longer than the context, ids outside of the
  /// vocabulary, sampling parameters out of range, and what would never fit into the cache.
  std::shared_ptr<const Sequence> add(Request request);

  /// Runs one step and returns the sequences that got a new id, in the batch's order. Throws Error
  /// (exit code 1) naming step and positions when the logits aren't finite. No-op without work.
  std::vector<std::shared_ptr<const Sequence>> step();

  bool has_work() const { return scheduler_.has_work(); }

  /// Ends a sequence early, for a stop string.
  void finish(const Sequence& sequence, FinishReason reason);

  const EngineOptions& options() const { return options_; }
  const KvCache& cache() const { return cache_; }
  const Scheduler& scheduler() const { return scheduler_; }
  int64_t num_steps() const { return num_steps_; }

 private:
  void deliver_prompt_logits(const Schedule& schedule, ConstTensor logits) const;
  std::vector<int32_t> sample(const Schedule& schedule, ConstTensor logits);

  Decoder* decoder_;
  EngineOptions options_;
  KvCache cache_;
  Scheduler scheduler_;
  BatchBuilder builder_;
  int64_t num_steps_ = 0;
};

}  // namespace llm
