// Speculative decoding: guess the next ids cheaply, then verify all guesses in one forward pass
// (Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023).
//
// A guess is accepted when it is what plain decoding would have chosen: the arg-max, or for a
// sampled request the id that its own random number for this place draws. So the tokens are those
// of plain decoding, always. Leviathan's rule accepts a little more often, but with it a sampled
// answer would depend on the draft. The draft draws with the same random numbers, which makes the
// two agree whenever their distributions nearly do.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/batch.h"
#include "engine/batch_builder.h"
#include "engine/scheduler.h"
#include "model/decoder.h"

namespace llm {

class Proposer {
 public:
  virtual ~Proposer() = default;

  /// Gives the decoding sequences of the schedule ids that may come next, at most
  /// rows[i].max_proposals each. Prompt rows are there so that a model can keep up.
  virtual void propose(Schedule& schedule) = 0;
};

/// Prompt look-up (Saxena, 2023): what came after the latest earlier occurrence of the last ids.
class NgramProposer : public Proposer {
 public:
  void propose(Schedule& schedule) override;
};

/// A smaller model of the same vocabulary. Its cache has a block for each of the target's, so one
/// block table serves both; where a shared block was never filled by it, guesses are only worse.
class DraftProposer : public Proposer {
 public:
  /// `draft` outlives the proposer; num_blocks and kv_dtype are those of the target's cache.
  DraftProposer(Decoder& draft, int64_t num_blocks, DType kv_dtype);

  void propose(Schedule& schedule) override;

 private:
  struct DraftRows {
    size_t of;  // in schedule.rows
    ScheduledRows rows;
  };

  /// One forward pass of the draft. Sequences whose rows have logits get one proposal more.
  void run(Schedule& schedule, const std::vector<DraftRows>& rows, int64_t num_decode_seqs);

  Decoder* draft_;
  KvCache cache_;
  BatchBuilder builder_;
};

}  // namespace llm
