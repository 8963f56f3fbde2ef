// One request on its way through the engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/logprobs.h"
#include "backend/sampling.h"
#include "base/tensor.h"

namespace llm {

/// For Request::max_tokens: generate until something else ends the sequence.
inline constexpr int64_t kNoTokenLimit = std::numeric_limits<int64_t>::max();

/// What is wanted of the engine.
struct Request {
  std::vector<int32_t> prompt_ids;  // at least one
  SamplingParams sampling;
  std::vector<int32_t> stop_ids;       // each ends the sequence and is its last id
  int64_t max_tokens = kNoTokenLimit;  // generated ids, the stop id included; 0 = prefill only
  int64_t num_ids = 0;                 // ids below this may be generated
  /// With each generated id its probability and that of so many of the most probable ones is kept
  /// (Sequence::logprobs()); not given: none.
  std::optional<int64_t> num_logprobs;
  int64_t prefill_cut = 0;  // the prefill stops before this position until all others have
                            // reached theirs; 0 = off
  /// If set: takes each sampled id and returns the one to use, which may be another: how text is
  /// forced on the model. Called once for each generated id, in order, after the step of the one
  /// before; so such a request gets no proposals.
  std::function<int32_t(int32_t sampled)> on_sampled;
  /// If set: receives the logits [rows, vocab_size] of the prompt's positions first_position and
  /// on, in order, until every position has been covered. Valid during the call only.
  std::function<void(int64_t first_position, ConstTensor logits)> on_prompt_logits;
};

enum class SequenceState { kWaiting, kRunning, kFinished };

enum class FinishReason {
  kNone,       // not finished
  kStop,       // a stop id, or the caller found a stop string
  kLength,     // max_tokens reached or the context is full
  kToolCalls,  // as kStop, and the caller found tool calls in the answer
};

/// "stop", "length", "tool_calls"; empty for kNone.
std::string_view name_of(FinishReason reason);

/// Prompt and generated ids, and how far the cache holds them. Changed by the Scheduler only.
class Sequence {
 public:
  explicit Sequence(Request request)
      : request_(std::move(request)),
        ids_(request_.prompt_ids),
        prompt_length_(static_cast<int64_t>(ids_.size())),
        prefill_end_(prompt_length_) {}

  const Request& request() const { return request_; }
  std::span<const int32_t> ids() const { return ids_with_proposals().first(size()); }
  std::span<const int32_t> prompt_ids() const { return ids().first(prompt_size()); }
  std::span<const int32_t> output_ids() const { return ids().subspan(prompt_size()); }
  int64_t length() const { return static_cast<int64_t>(size()); }
  int64_t prompt_length() const { return prompt_length_; }
  int64_t output_length() const { return length() - prompt_length_; }

  /// Ids that a step verifies: guesses of what follows. They are no part of ids() yet.
  int64_t num_proposals() const { return num_proposals_; }
  std::span<const int32_t> proposals() const { return ids_with_proposals().subspan(size()); }
  std::span<const int32_t> ids_with_proposals() const { return ids_; }
  /// The output as it is when the first n proposals are right.
  std::span<const int32_t> output_ids_with(int64_t n) const {
    return ids_with_proposals().subspan(prompt_size(), static_cast<size_t>(output_length() + n));
  }
  /// Of each output id, if the request asked for them.
  std::span<const GeneratedLogprobs> logprobs() const { return logprobs_; }
  /// Over its whole life.
  int64_t num_proposed() const { return num_proposed_; }
  int64_t num_accepted() const { return num_accepted_; }

  /// The id is one of the request's stop ids.
  bool stops_at(int32_t id) const {
    const std::vector<int32_t>& stops = request_.stop_ids;
    return std::find(stops.begin(), stops.end(), id) != stops.end();
  }

  SequenceState state() const { return state_; }
  bool finished() const { return state_ == SequenceState::kFinished; }
  FinishReason finish_reason() const { return finish_reason_; }

  /// Leading ids whose keys and values are in the cache.
  int64_t num_cached_tokens() const { return num_cached_tokens_; }
  /// The same in the draft model's cache, where there is one.
  int64_t num_draft_cached_tokens() const { return num_draft_cached_tokens_; }
  /// Leading ids of the prompt that the prefix cache had.
  int64_t num_prefix_cached_tokens() const { return num_prefix_cached_tokens_; }
  /// Its prompt, or after a preemption all ids it had by then, isn't all in the cache yet.
  bool in_prefill() const { return num_cached_tokens_ < prefill_end_; }
  /// Some of the prompt's logits that the request asked for haven't been delivered.
  bool lacks_prompt_logits() const {
    return request_.on_prompt_logits != nullptr && num_prompt_logits_ < prompt_length_;
  }
  /// The next rows of its prefill are among them, and not computed again after a preemption.
  bool wants_prompt_logits() const {
    return lacks_prompt_logits() && num_cached_tokens_ >= num_prompt_logits_;
  }
  /// Block i of the cache holds tokens [i * kKvBlockSize, (i + 1) * kKvBlockSize).
  std::span<const int32_t> block_table() const { return block_table_; }

 private:
  friend class Scheduler;
  friend struct Schedule;
  size_t size() const { return ids_.size() - static_cast<size_t>(num_proposals_); }
  size_t prompt_size() const { return static_cast<size_t>(prompt_length_); }

  Request request_;
  std::vector<int32_t> ids_;  // and behind them the proposals
  std::vector<GeneratedLogprobs> logprobs_;
  int64_t prompt_length_;
  int64_t prefill_end_;
  int64_t num_cached_tokens_ = 0;
  int64_t num_draft_cached_tokens_ = 0;
  int64_t num_proposals_ = 0;
  int64_t next_proposals_ = 0;  // at most, in its next step
  int64_t num_proposed_ = 0;
  int64_t num_accepted_ = 0;
  int64_t num_prompt_logits_ = 0;  // leading positions whose logits were delivered
  int64_t num_prefix_cached_tokens_ = 0;
  std::vector<int32_t> block_table_;
  SequenceState state_ = SequenceState::kWaiting;
  FinishReason finish_reason_ = FinishReason::kNone;
};

}  // namespace llm
