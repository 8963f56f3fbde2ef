// Which rows of which sequences the next step computes. No tensors here: it is tested alone.
//
// First come, first served. A sequence is admitted when blocks for all its ids are free, and gets
// more as it grows. When a decoding sequence finds none, the sequence that came last gives up all
// of its blocks and waits again, in front of the others; it keeps what it generated, and its keys
// and values are computed again, or found in the prefix cache.
//
// Decoding sequences take part in every step. Prompts are cut at fixed multiples of the sequence's
// own position, so what a row is computed with never depends on its neighbours.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "engine/batch_builder.h"
#include "engine/block_manager.h"
#include "engine/sequence.h"

namespace llm {

using SequencePtr = std::shared_ptr<Sequence>;

struct SchedulerOptions {
  int64_t context = 0;                   // most tokens of one sequence
  int64_t max_num_seqs = 16;             // running at once
  int64_t prefill_chunk = 512;           // prompts are cut at multiples of it
  int64_t max_num_batched_tokens = 528;  // rows of one step, at least the two numbers above
  int64_t block_size = kKvBlockSize;     // tokens that get cache room at once, a multiple of it
  bool prefix_cache = true;              // share blocks of equal prefixes, also with the past
  int64_t max_proposals = 0;             // of one sequence in one step; 0: no speculation
  int64_t first_proposals = 4;           // the same before it is known how many are right

  /// Rows of a step in which all sequences decode and verify.
  int64_t most_decode_rows() const { return max_num_seqs * (1 + max_proposals); }
  /// Makes a step large enough for rows of all sequences and one chunk of a prompt.
  void fit_batched_tokens() {
    max_num_batched_tokens = std::max(max_num_batched_tokens, most_decode_rows() + prefill_chunk);
  }
};

/// The rows of one step; rows[i] is of sequences[i], decoding ones first.
struct Schedule {
  std::vector<ScheduledRows> rows;
  std::vector<SequencePtr> sequences;
  int64_t num_decode_seqs = 0;

  bool empty() const { return rows.empty(); }

  /// Adds an id that may come next to a row of a decoding sequence, at most max_proposals times.
  void propose(size_t row, int32_t id);
  /// The draft's cache holds so many leading ids of the row's sequence now, proposals included.
  void drafted(size_t row, int64_t num_tokens);
  /// What belongs to the next of the ids that done() is going to give the row's sequence.
  void add_logprobs(size_t row, GeneratedLogprobs logprobs);
};

class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, int64_t num_blocks);

  /// Blocks that the sequence holds when it is as long as it can become.
  int64_t most_blocks(const Sequence& sequence) const;

  /// The last in the queue. Alone it must fit: most_blocks() is at most blocks().num_blocks().
  void add(SequencePtr sequence);

  /// The next step. Empty if and only if there is no work. Valid until its done(), which comes
  /// between two calls.
  Schedule& next();

  /// The step after the one under way, whose ids aren't known yet: each of its sequences that may
  /// get more goes on with the id that it is going to get. Empty where the step depends on what the
  /// ids are, or where sequences come or have to go. After it the step under way is done() first;
  /// then this one is the one under way.
  Schedule& next_ahead();

  /// The step under way was run: its rows are in the cache, and next_ids[i] follow sequences[i]: as
  /// many proposals as were right, and one id more; nothing where nothing was sampled. Ends
  /// sequences that have all they may get; those that ended since it was planned get nothing.
  /// Returns those that got an id.
  std::vector<std::shared_ptr<const Sequence>> done(std::span<const std::vector<int32_t>> next_ids);

  /// Takes a sequence that waits or runs out, and gives its blocks back.
  void finish(const Sequence& sequence, FinishReason reason);

  bool has_work() const { return !waiting_.empty() || !running_.empty(); }
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t num_running() const { return static_cast<int64_t>(running_.size()); }
  int64_t num_preemptions() const { return num_preemptions_; }
  const BlockManager& blocks() const { return blocks_; }

 private:
  void admit();
  bool admit(Sequence& sequence);
  bool may_run_ahead() const;
  bool make_room_to_decode(const Sequence& sequence);
  int64_t proposals_for(const Sequence& sequence) const;
  void preempt_latest();
  int64_t next_chunk(const Sequence& sequence) const;
  void schedule_rows(Schedule& schedule, const SequencePtr& sequence, int64_t num_tokens,
                     int64_t max_proposals);
  void count_proposals(Sequence& sequence, int64_t accepted);
  /// Whether the sequence may get n more ids.
  bool wants_tokens(const Sequence& sequence, int64_t n) const;
  void append(Sequence& sequence, int32_t id);
  void retire(Sequence& sequence, FinishReason reason);

  SchedulerOptions options_;
  BlockManager blocks_;
  std::deque<SequencePtr> waiting_;   // in order of arrival
  std::vector<SequencePtr> running_;  // in order of arrival
  /// The step under way, and the one after it if it's planned.
  std::array<Schedule, 2> schedules_;
  size_t current_ = 0;
  bool is_ahead_ = false;
  int64_t num_preemptions_ = 0;
};

}  // namespace llm
