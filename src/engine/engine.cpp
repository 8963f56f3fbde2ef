#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace llm {
namespace {

void check_ids(const std::vector<int32_t>& ids, int64_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      refuse("id {} at position {} of the prompt is not in the model's vocabulary of {} ids",
             ids[i], i, vocab_size);
    }
  }
}

/// One row for each id that may follow: the next one, and one after each proposal.
std::vector<SampleRow> rows_to_sample(const Schedule& schedule) {
  std::vector<SampleRow> rows;
  int64_t end = 0;  // of the sequence's logits
  for (const ScheduledRows& scheduled : schedule.rows) {
    end += scheduled.num_logits;
    if (!scheduled.samples) continue;
    const Sequence& sequence = *scheduled.sequence;
    const int64_t num_proposals = sequence.num_proposals();
    for (int64_t right = 0; right <= num_proposals; ++right) {
      rows.push_back({.params = &sequence.request().sampling,
                      .prompt_ids = sequence.prompt_ids(),
                      .output_ids = sequence.output_ids_with(right),
                      .num_ids = sequence.request().num_ids,
                      .logits_row = end - 1 - num_proposals + right,
                      .input_is_output = scheduled.pending_id >= 0,
                      .num_logprobs = sequence.request().num_logprobs});
    }
  }
  return rows;
}

bool wants_logprobs(const Schedule& schedule) {
  return std::any_of(schedule.rows.begin(), schedule.rows.end(), [](const ScheduledRows& rows) {
    return rows.samples && rows.sequence->request().num_logprobs.has_value();
  });
}

}  // namespace

Engine::Engine(Decoder& decoder, const EngineOptions& options, std::unique_ptr<Proposer> proposer)
    : decoder_(&decoder),
      options_(options),
      cache_(decoder.make_cache(options.num_kv_blocks(), options.kv_dtype)),
      scheduler_(options.scheduler, cache_.spec().num_blocks),
      proposer_(std::move(proposer)) {
  LLM_CHECK(options.scheduler.context > 0 && options.scheduler.context <= decoder.max_positions());
  // Memory that isn't there is missed now, and no step waits for an allocation.
  if (decoder.backend().runs_ahead()) {
    decoder.reserve(options.scheduler.max_num_batched_tokens, options.scheduler.most_decode_rows());
  }
}

Engine::~Engine() {
  if (!ahead_) return;
  try {
    decoder_->backend().finish();
  } catch (const Error&) {  // the device fails: nothing uses the cache any more
  }
}

std::shared_ptr<const Sequence> Engine::add(Request request) {
  const int64_t prompt_length = static_cast<int64_t>(request.prompt_ids.size());
  const int64_t vocab_size = decoder_->config().vocab_size;
  const int64_t context = options_.scheduler.context;
  LLM_CHECK(request.num_ids > 0 && request.num_ids <= vocab_size);
  if (prompt_length == 0) refuse("the prompt has no tokens");
  if (prompt_length > context) {
    refuse("the prompt has {} tokens, but the context holds {}: give {}a shorter prompt",
           prompt_length, context,
           context < decoder_->config().max_position_embeddings
               ? "a larger --ctx (or --kv-blocks) or "
               : "");
  }
  check_ids(request.prompt_ids, vocab_size);
  validate(request.sampling);
  auto sequence = std::make_shared<Sequence>(std::move(request));
  const int64_t most = scheduler_.most_blocks(*sequence);
  if (most > scheduler_.blocks().num_blocks()) {
    refuse(
        "the request may need room for {} tokens in the cache, which holds {}: lower --max-tokens "
        "or raise --kv-blocks",
        most * kKvBlockSize, scheduler_.blocks().num_blocks() * kKvBlockSize);
  }
  scheduler_.add(sequence);
  return sequence;
}

std::vector<std::shared_ptr<const Sequence>> Engine::step() {
  std::optional<Running> step = std::exchange(ahead_, std::nullopt);
  if (!step) {
    Schedule& schedule = scheduler_.next();
    if (schedule.empty()) return {};
    if (proposer_ != nullptr) proposer_->propose(schedule);
    step = start(schedule);
  }
  ahead_ = start_ahead();
  const std::vector<std::vector<int32_t>> ids = next_ids(*step);
  ++num_steps_;
  return scheduler_.done(ids);
}

Engine::Running Engine::start(Schedule& schedule) {
  const Batch batch = builder_.build(schedule.rows, schedule.num_decode_seqs);
  const ConstTensor logits = decoder_->forward(batch, cache_);
  deliver_prompt_logits(schedule, logits);
  return {&schedule, logits, decoder_->backend().sample(logits, rows_to_sample(schedule))};
}

std::optional<Engine::Running> Engine::start_ahead() {
  if (!decoder_->backend().runs_ahead()) return std::nullopt;
  Schedule& schedule = scheduler_.next_ahead();
  if (schedule.empty()) return std::nullopt;
  return start(schedule);
}

void Engine::finish(const Sequence& sequence, FinishReason reason) {
  scheduler_.finish(sequence, reason);
}

void Engine::deliver_prompt_logits(const Schedule& schedule, ConstTensor logits) const {
  int64_t first = 0;
  for (const ScheduledRows& rows : schedule.rows) {
    if (rows.prompt_logits) {
      const ConstTensor own = rows_of(logits, first, rows.num_logits);
      rows.sequence->request().on_prompt_logits(rows.begin, decoder_->backend().to_host(own));
    }
    first += rows.num_logits;
  }
}

std::vector<std::vector<int32_t>> Engine::next_ids(const Running& step) const {
  Backend& backend = decoder_->backend();
  const std::span<const SampledId> sampled = backend.sampled(step.ticket);
  std::span<const GeneratedLogprobs> logprobs;
  if (wants_logprobs(*step.schedule)) logprobs = backend.logprobs(step.ticket);
  std::vector<std::vector<int32_t>> all(step.schedule->rows.size());
  int64_t row = 0;   // of the logits
  size_t first = 0;  // of the sequence's rows in `sampled`
  for (size_t i = 0; i < all.size(); ++i) {
    const ScheduledRows& rows = step.schedule->rows[i];
    row += rows.num_logits;
    if (!rows.samples) continue;
    const Sequence& sequence = *rows.sequence;
    if (rows.pending_id >= 0 && sequence.finished()) {  // its end wasn't known then
      ++first;
      continue;
    }
    const auto proposals = sequence.proposals();
    std::vector<int32_t>& ids = all[i];
    do {  // as long as the proposals are right
      const size_t at = first + ids.size();
      ids.push_back(next_id(sequence, std::ssize(ids), sampled[at]));
      if (const auto num_top = sequence.request().num_logprobs) {
        const int64_t own = row - std::ssize(proposals) + std::ssize(ids) - 2;
        step.schedule->add_logprobs(i, ids.back() == sampled[at].id
                                           ? logprobs[at]
                                           : logprobs_at(step.logits, own, ids.back(), *num_top));
      }
    } while (ids.size() <= proposals.size() && ids.back() == proposals[ids.size() - 1] &&
             !sequence.stops_at(ids.back()));
    first += 1 + proposals.size();
  }
  return all;
}

/// For an id that the caller put in the place of the one chosen.
GeneratedLogprobs Engine::logprobs_at(ConstTensor logits, int64_t row, int32_t id,
                                      int64_t num_top) const {
  const ConstTensor readable = decoder_->backend().to_host(rows_of(logits, row, 1));
  return logprobs_of({readable.as<float>(), static_cast<size_t>(readable.shape[1])}, id, num_top);
}

/// The id that follows when the first `num_right` proposals are right.
int32_t Engine::next_id(const Sequence& sequence, int64_t num_right,
                        const SampledId& sampled) const {
  int32_t id = 0;
  try {
    id = id_of(sampled);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("step {}, position {}: {}", num_steps_,
                                      sequence.length() + num_right - 1, e.what()));
  }
  return sequence.request().on_sampled ? sequence.request().on_sampled(id) : id;
}

}  // namespace llm
