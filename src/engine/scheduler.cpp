#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace llm {
namespace {

/// How many ids to propose next, from how the last proposals went: all were right, then more; else
/// one more than were right.
int64_t adapted_proposals(int64_t proposed, int64_t accepted, int64_t most) {
  const int64_t next = accepted == proposed ? accepted + 2 : accepted + 1;
  return std::clamp<int64_t>(next, 1, most);
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, int64_t num_blocks)
    : options_(options), blocks_(num_blocks, options.block_size) {
  LLM_CHECK(options.max_num_seqs > 0 && options.prefill_chunk > 0);
  LLM_CHECK(options.max_num_batched_tokens >= options.most_decode_rows() + options.prefill_chunk);
}

int64_t Scheduler::most_blocks(const Sequence& sequence) const {
  const int64_t room = options_.context - sequence.prompt_length();
  const int64_t most = sequence.prompt_length() + std::min(room, sequence.request().max_tokens);
  return blocks_.blocks_for(most);
}

bool Scheduler::wants_tokens(const Sequence& sequence, int64_t n) const {
  return sequence.output_length() + n <= sequence.request().max_tokens &&
         sequence.length() + n <= options_.context;
}

void Scheduler::add(SequencePtr sequence) {
  LLM_CHECK(most_blocks(*sequence) <= blocks_.num_blocks());
  sequence->next_proposals_ = options_.first_proposals;
  waiting_.push_back(std::move(sequence));
}

Schedule& Scheduler::next() {
  LLM_CHECK(!is_ahead_);
  admit();
  Schedule& schedule = schedules_[current_];
  schedule = {};
  int64_t num_tokens = 0;
  for (size_t i = 0; i < running_.size(); ++i) {  // it becomes shorter where one is preempted
    const SequencePtr sequence = running_[i];
    if (sequence->in_prefill() || !make_room_to_decode(*sequence)) continue;
    const int64_t max_proposals = proposals_for(*sequence);
    schedule_rows(schedule, sequence, 1, max_proposals);
    num_tokens += 1 + max_proposals;
  }
  schedule.num_decode_seqs = std::ssize(schedule.rows);
  const auto before_cut = [](const SequencePtr& sequence) {
    return sequence->num_cached_tokens() < sequence->request().prefill_cut;
  };
  const bool cuts_ahead = std::any_of(running_.begin(), running_.end(), before_cut);
  for (const SequencePtr& sequence : running_) {
    if (!sequence->in_prefill() || (cuts_ahead && !before_cut(sequence))) continue;
    const int64_t rows = next_chunk(*sequence);
    if (num_tokens + rows > options_.max_num_batched_tokens) break;
    schedule_rows(schedule, sequence, rows, 0);
    num_tokens += rows;
  }
  return schedule;
}

/// All running sequences get an id of the step under way, and nothing depends on which.
bool Scheduler::may_run_ahead() const {
  const Schedule& current = schedules_[current_];
  const bool may_be_admitted = !waiting_.empty() && num_running() < options_.max_num_seqs;
  if (options_.max_proposals > 0 || may_be_admitted) return false;
  int64_t num_live = 0;
  for (const ScheduledRows& rows : current.rows) {
    if (!rows.samples || rows.sequence->request().on_sampled) return false;
    if (!rows.sequence->finished()) ++num_live;
  }
  return num_live == num_running();
}

Schedule& Scheduler::next_ahead() {
  LLM_CHECK(!is_ahead_);
  const Schedule& current = schedules_[current_];
  Schedule& ahead = schedules_[1 - current_];
  ahead = {};
  if (!may_run_ahead()) return ahead;
  int64_t missing = 0;  // blocks
  for (const SequencePtr& sequence : running_) {
    missing += blocks_.blocks_for(sequence->length() + 1) - std::ssize(sequence->block_table());
  }
  if (missing > blocks_.num_free()) return ahead;
  for (size_t i = 0; i < current.rows.size(); ++i) {
    const SequencePtr& sequence = current.sequences[i];
    if (sequence->finished() || !wants_tokens(*sequence, 2)) continue;
    blocks_.grow(sequence->block_table_, sequence->length() + 1);
    ahead.rows.push_back({.sequence = sequence.get(),
                          .begin = sequence->length(),
                          .num_tokens = 1,
                          .num_logits = 1,
                          .samples = true,
                          .pending_id = static_cast<int32_t>(i)});
    ahead.sequences.push_back(sequence);
  }
  ahead.num_decode_seqs = std::ssize(ahead.rows);
  is_ahead_ = !ahead.empty();
  return ahead;
}

void Scheduler::admit() {
  while (!waiting_.empty() && num_running() < options_.max_num_seqs && admit(*waiting_.front())) {
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

bool Scheduler::admit(Sequence& sequence) {
  // Logits of every row need every row computed.
  if (options_.prefix_cache && !sequence.lacks_prompt_logits()) {
    sequence.num_cached_tokens_ = blocks_.reuse(sequence.block_table_, sequence.ids());
  }
  const int64_t missing =
      blocks_.blocks_for(sequence.length()) - static_cast<int64_t>(sequence.block_table_.size());
  if (missing > blocks_.num_free()) {
    blocks_.release(sequence.block_table_);
    sequence.num_cached_tokens_ = 0;
    return false;
  }
  sequence.num_draft_cached_tokens_ = sequence.num_cached_tokens_;
  blocks_.grow(sequence.block_table_, sequence.length());
  if (sequence.output_length() == 0) {
    sequence.num_prefix_cached_tokens_ = sequence.num_cached_tokens_;
  }
  sequence.prefill_end_ = sequence.length();
  sequence.state_ = SequenceState::kRunning;
  return true;
}

/// False if the sequence itself had to give its blocks up.
bool Scheduler::make_room_to_decode(const Sequence& sequence) {
  const int64_t wanted = blocks_.blocks_for(sequence.num_cached_tokens() + 1) -
                         static_cast<int64_t>(sequence.block_table().size());
  while (wanted > blocks_.num_free()) {
    const bool itself = running_.back().get() == &sequence;
    preempt_latest();
    if (itself) return false;
  }
  return true;
}

/// No more than may be wanted, and none that takes a block which another sequence needs.
int64_t Scheduler::proposals_for(const Sequence& sequence) const {
  if (options_.max_proposals == 0 || sequence.request().on_sampled) return 0;
  const int64_t left = std::min(sequence.request().max_tokens - sequence.output_length(),
                                options_.context - sequence.length());
  const int64_t most = std::min({options_.max_proposals, sequence.next_proposals_, left - 1});
  const int64_t blocks = blocks_.blocks_for(sequence.length() + most) -
                         static_cast<int64_t>(sequence.block_table().size());
  if (blocks + num_running() <= blocks_.num_free()) return std::max<int64_t>(most, 0);
  const int64_t in_last_block =
      blocks_.blocks_for(sequence.length()) * kKvBlockSize - sequence.length();
  return std::clamp<int64_t>(most, 0, in_last_block);
}

void Scheduler::preempt_latest() {
  Sequence& sequence = *running_.back();
  blocks_.release(sequence.block_table_);
  sequence.num_cached_tokens_ = 0;
  sequence.state_ = SequenceState::kWaiting;
  waiting_.push_front(std::move(running_.back()));
  running_.pop_back();
  ++num_preemptions_;
}

int64_t Scheduler::next_chunk(const Sequence& sequence) const {
  const int64_t begin = sequence.num_cached_tokens();
  const int64_t cut = sequence.request().prefill_cut;
  int64_t end = (begin / options_.prefill_chunk + 1) * options_.prefill_chunk;
  end = std::min(end, sequence.prefill_end_);
  if (begin < cut) end = std::min(end, cut);
  return end - begin;
}

void Scheduler::schedule_rows(Schedule& schedule, const SequencePtr& sequence, int64_t num_tokens,
                              int64_t max_proposals) {
  const int64_t begin = sequence->num_cached_tokens();
  const int64_t end = begin + num_tokens;
  const bool prompt_logits = sequence->wants_prompt_logits();
  const bool samples = end == sequence->length() && wants_tokens(*sequence, 1);
  blocks_.grow(sequence->block_table_, end + max_proposals);
  schedule.rows.push_back({.sequence = sequence.get(),
                           .begin = begin,
                           .num_tokens = num_tokens,
                           .num_logits = prompt_logits ? num_tokens : (samples ? 1 : 0),
                           .prompt_logits = prompt_logits,
                           .samples = samples,
                           .max_proposals = max_proposals});
  schedule.sequences.push_back(sequence);
}

void Schedule::propose(size_t row, int32_t id) {
  Sequence& sequence = *sequences[row];
  LLM_CHECK(sequence.num_proposals() < rows[row].max_proposals);
  sequence.ids_.push_back(id);
  ++sequence.num_proposals_;
  ++rows[row].num_tokens;
  ++rows[row].num_logits;
}

void Schedule::drafted(size_t row, int64_t num_tokens) {
  sequences[row]->num_draft_cached_tokens_ = num_tokens;
}

void Schedule::add_logprobs(size_t row, GeneratedLogprobs logprobs) {
  sequences[row]->logprobs_.push_back(std::move(logprobs));
}

std::vector<std::shared_ptr<const Sequence>> Scheduler::done(
    std::span<const std::vector<int32_t>> next_ids) {
  const Schedule& schedule = schedules_[current_];
  LLM_CHECK(next_ids.size() == schedule.rows.size());
  std::vector<std::shared_ptr<const Sequence>> advanced;
  for (size_t i = 0; i < schedule.rows.size(); ++i) {
    Sequence& sequence = *schedule.sequences[i];
    const ScheduledRows& rows = schedule.rows[i];
    if (rows.pending_id >= 0 && sequence.finished()) continue;
    const int64_t accepted = std::max<int64_t>(1, std::ssize(next_ids[i])) - 1;
    const int64_t wrong = sequence.num_proposals() - accepted;
    sequence.num_cached_tokens_ = rows.begin + rows.num_tokens - wrong;
    sequence.num_draft_cached_tokens_ =
        std::min(sequence.num_draft_cached_tokens_, sequence.length() + accepted);
    if (rows.prompt_logits) sequence.num_prompt_logits_ = sequence.num_cached_tokens_;
    if (options_.prefix_cache) {
      const auto cached = static_cast<size_t>(sequence.num_cached_tokens());
      blocks_.remember(sequence.block_table_, sequence.ids_with_proposals().first(cached));
    }
    if (rows.max_proposals > 0) count_proposals(sequence, accepted);
    for (const int32_t id : next_ids[i]) {
      if (!sequence.finished()) append(sequence, id);
    }
    if (!next_ids[i].empty()) {
      advanced.push_back(schedule.sequences[i]);
    } else if (!sequence.in_prefill()) {
      finish(sequence, FinishReason::kLength);
    }
  }
  if (std::exchange(is_ahead_, false)) current_ = 1 - current_;
  return advanced;
}

/// And drops them: those that were right come again as next ids.
void Scheduler::count_proposals(Sequence& sequence, int64_t accepted) {
  const int64_t proposed = sequence.num_proposals();
  sequence.num_proposed_ += proposed;
  sequence.num_accepted_ += accepted;
  if (proposed > 0) {
    sequence.next_proposals_ = adapted_proposals(proposed, accepted, options_.max_proposals);
  }
  sequence.ids_.resize(sequence.size());
  sequence.num_proposals_ = 0;
}

void Scheduler::append(Sequence& sequence, int32_t id) {
  sequence.ids_.push_back(id);
  if (sequence.stops_at(id)) {
    finish(sequence, FinishReason::kStop);
  } else if (!wants_tokens(sequence, 1)) {
    finish(sequence, FinishReason::kLength);
  }
}

void Scheduler::finish(const Sequence& sequence, FinishReason reason) {
  const auto is_it = [&](const SequencePtr& s) { return s.get() == &sequence; };
  if (const auto it = std::find_if(running_.begin(), running_.end(), is_it); it != running_.end()) {
    retire(**it, reason);
    running_.erase(it);
  } else if (const auto w = std::find_if(waiting_.begin(), waiting_.end(), is_it);
             w != waiting_.end()) {
    retire(**w, reason);
    waiting_.erase(w);
  }
}

void Scheduler::retire(Sequence& sequence, FinishReason reason) {
  blocks_.release(sequence.block_table_);
  sequence.state_ = SequenceState::kFinished;
  sequence.finish_reason_ = reason;
}

}  // namespace llm
