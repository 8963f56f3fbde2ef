#include "engine/engine.h"

#include <algorithm>

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

}  // namespace

Engine::Engine(Decoder& decoder, const EngineOptions& options, std::unique_ptr<Proposer> proposer)
    : decoder_(&decoder),
      options_(options),
      cache_(decoder.make_cache(options.num_kv_blocks(), options.kv_dtype)),
      scheduler_(options.scheduler, cache_.spec().num_blocks),
      proposer_(std::move(proposer)) {
  LLM_CHECK(options.scheduler.context > 0 && options.scheduler.context <= decoder.max_positions());
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
  Schedule& schedule = scheduler_.next();
  if (schedule.rows.empty()) return {};
  if (proposer_ != nullptr) proposer_->propose(schedule);
  const Batch batch = builder_.build(schedule.rows, schedule.num_decode_seqs);
  const ConstTensor logits = decoder_->forward(batch, cache_);
  deliver_prompt_logits(schedule, logits);
  const std::vector<std::vector<int32_t>> next_ids = choose_ids(schedule, logits);
  ++num_steps_;
  return scheduler_.done(next_ids);
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

std::vector<std::vector<int32_t>> Engine::choose_ids(Schedule& schedule, ConstTensor logits) const {
  std::vector<std::vector<int32_t>> next_ids(schedule.rows.size());
  int64_t end = 0;  // of this sequence's rows in logits
  for (size_t i = 0; i < schedule.rows.size(); ++i) {
    end += schedule.rows[i].num_logits;
    if (!schedule.rows[i].samples) continue;
    const Sequence& sequence = *schedule.rows[i].sequence;
    const auto proposals = sequence.proposals();
    const int64_t first = end - 1 - std::ssize(proposals);
    std::vector<int32_t>& ids = next_ids[i];
    do {  // as long as the proposals are right
      const ConstTensor row = rows_of(logits, first + std::ssize(ids), 1);
      ids.push_back(sample(sequence, std::ssize(ids), row));
      if (const auto num_top = sequence.request().num_logprobs) {
        const ConstTensor readable = decoder_->backend().to_host(row);
        const std::span values(readable.as<float>(), static_cast<size_t>(row.shape[1]));
        schedule.add_logprobs(i, logprobs_of(values, ids.back(), *num_top));
      }
    } while (ids.size() <= proposals.size() && ids.back() == proposals[ids.size() - 1] &&
             !sequence.stops_at(ids.back()));
  }
  return next_ids;
}

/// The id that follows when the first `num_right` proposals are right.
int32_t Engine::sample(const Sequence& sequence, int64_t num_right, ConstTensor logits) const {
  const SampleRow row{&sequence.request().sampling, sequence.prompt_ids(),
                      sequence.output_ids_with(num_right), sequence.request().num_ids};
  int32_t id = 0;
  try {
    decoder_->backend().sample({&id, 1}, logits, {&row, 1});
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("step {}, position {}: {}", num_steps_,
                                      sequence.length() + num_right - 1, e.what()));
  }
  return sequence.request().on_sampled ? sequence.request().on_sampled(id) : id;
}

}  // namespace llm
