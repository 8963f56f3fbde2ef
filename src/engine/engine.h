// Runs requests: each step() is one forward pass over rows of several sequences, then one new
// token for each sequence whose prompt is complete.
//
// First come, first served: sequences wait until blocks for all they may need are free. Decoding
// sequences take part in every step; prompts are cut at fixed multiples of the sequence's own
// position, so that what a row is computed with never depends on its neighbours.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "backend/batch.h"
#include "engine/batch_builder.h"
#include "engine/block_manager.h"
#include "engine/sequence.h"
#include "model/decoder.h"

namespace llm {

struct EngineOptions {
  int64_t context = 0;           // most tokens of one sequence
  int64_t num_cache_tokens = 0;  // that the cache holds over all sequences
  DType kv_dtype = DType::kBF16;
  int64_t max_num_seqs = 16;
  int64_t prefill_chunk = 512;           // prompts are cut at multiples of it
  int64_t max_num_batched_tokens = 528;  // rows of one step, at least the two numbers above
  bool prefix_cache = true;              // share blocks of equal prefixes, also with the past
};

class Engine {
 public:
  /// The decoder outlives the engine.
  Engine(Decoder& decoder, const EngineOptions& options);

  /// Refuses (exit code 2) a prompt that is empty or longer than the context, ids outside of the
  /// vocabulary, and sampling parameters out of range.
  std::shared_ptr<const Sequence> add(Request request);

  /// Runs one step and returns the sequences that got a new id, in the batch's order. Throws Error
  /// (exit code 1) naming step and positions when the logits aren't finite. No-op without work.
  std::vector<std::shared_ptr<const Sequence>> step();

  bool has_work() const { return !waiting_.empty() || !running_.empty(); }

  /// Ends a sequence early, for a stop string.
  void finish(const Sequence& sequence, FinishReason reason);

  const EngineOptions& options() const { return options_; }
  const KvCache& cache() const { return cache_; }
  const BlockManager& blocks() const { return blocks_; }
  int64_t num_steps() const { return num_steps_; }

 private:
  static constexpr int32_t kNoToken = -1;
  using SequencePtr = std::shared_ptr<Sequence>;

  int64_t blocks_needed(const Sequence& sequence) const;
  bool wants_token(const Sequence& sequence) const;
  void admit();
  void reuse_prefix(Sequence& sequence);
  void schedule();
  int64_t next_chunk(const Sequence& sequence) const;
  void schedule_rows(const SequencePtr& sequence, int64_t num_tokens);
  void deliver_prompt_logits(ConstTensor logits) const;
  std::vector<int32_t> sample(ConstTensor logits);
  std::vector<std::shared_ptr<const Sequence>> advance(const std::vector<int32_t>& sampled);
  void append(Sequence& sequence, int32_t id);
  void end(Sequence& sequence, FinishReason reason);

  Decoder* decoder_;
  EngineOptions options_;
  KvCache cache_;
  BlockManager blocks_;
  BatchBuilder builder_;
  int64_t reserved_blocks_ = 0;  // that the running sequences may need in all
  int64_t num_steps_ = 0;
  std::deque<SequencePtr> waiting_;
  std::vector<SequencePtr> running_;  // in order of arrival

  // This step's rows: scheduled_[i] is of stepping_[i].
  std::vector<ScheduledRows> scheduled_;
  std::vector<SequencePtr> stepping_;
  int64_t num_decode_seqs_ = 0;
};

}  // namespace llm
