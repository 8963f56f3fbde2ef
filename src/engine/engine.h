// Runs requests: each step() is one forward pass over the rows that the scheduler chose, then
// one new token, or with speculation several, for each sequence whose ids are all in the cache.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backend/batch.h"
#include "engine/batch_builder.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/speculative.h"
#include "model/decoder.h"

namespace llm {

struct EngineOptions {
  SchedulerOptions scheduler = {};
  int64_t num_cache_tokens = 0;  // that the cache holds over all sequences, at least
  DType kv_dtype = DType::kBF16;

  /// Of the cache: whole blocks of scheduler.block_size.
  int64_t num_kv_blocks() const {
    const int64_t size = scheduler.block_size;
    return kv_blocks_for((num_cache_tokens + size - 1) / size * size);
  }
};

class Engine {
 public:
  /// The decoder outlives the engine. The proposer, if any, is for scheduler.max_proposals > 0.
  Engine(Decoder& decoder, const EngineOptions& options,
         std::unique_ptr<Proposer> proposer = nullptr);
  /// Waits for a step that nobody reads: it uses the cache.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Refuses (exit code 2) a prompt that is empty or longer than the context, ids outside of the
  /// vocabulary, sampling parameters out of range, and what would never fit into the cache.
  std::shared_ptr<const Sequence> add(Request request);

  /// Runs one step and returns the sequences that got new ids, in the batch's order. Throws Error
  /// (exit code 1) naming step and positions when the logits aren't finite. No-op without work.
  /// Where the backend runs ahead, it has the next step to do before this one's ids are read.
  std::vector<std::shared_ptr<const Sequence>> step();

  bool has_work() const { return scheduler_.has_work(); }

  /// Ends a sequence early, for a stop string.
  void finish(const Sequence& sequence, FinishReason reason);

  const EngineOptions& options() const { return options_; }
  const KvCache& cache() const { return cache_; }
  const Scheduler& scheduler() const { return scheduler_; }
  int64_t num_steps() const { return num_steps_; }

 private:
  /// A step that the backend was asked for.
  struct Running {
    Schedule* schedule;
    ConstTensor logits;  // until the next step begins
    SampleTicket ticket;
  };

  Running start(Schedule& schedule);
  std::optional<Running> start_ahead();
  void deliver_prompt_logits(const Schedule& schedule, ConstTensor logits) const;
  std::vector<std::vector<int32_t>> next_ids(const Running& step) const;
  GeneratedLogprobs logprobs_at(ConstTensor logits, int64_t row, int32_t id, int64_t num_top) const;
  int32_t next_id(const Sequence& sequence, int64_t num_right, const SampledId& sampled) const;

  Decoder* decoder_;
  EngineOptions options_;
  KvCache cache_;
  Scheduler scheduler_;
  std::unique_ptr<Proposer> proposer_;
  BatchBuilder builder_;
  std::optional<Running> ahead_;
  int64_t num_steps_ = 0;
};

}  // namespace llm
