#include "engine/engine.h"

#include <algorithm>

#include "base/error.h"

namespace llm {
namespace {

/// Rows [first, first + count) of a matrix.
ConstTensor rows_of(ConstTensor matrix, int64_t first, int64_t count) {
  const int64_t columns = matrix.shape[1];
  const int64_t row_bytes = byte_size(matrix.dtype, {columns});
  const std::byte* data = matrix.data == nullptr ? nullptr : matrix.data + first * row_bytes;
  return {data, matrix.dtype, {count, columns}};
}

int64_t logits_rows(const ScheduledRows& rows) {
  if (rows.all_logits) return rows.num_tokens;
  return rows.last_logits ? 1 : 0;
}

void check_ids(const std::vector<int32_t>& ids, int64_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      refuse("id {} at position {} of the prompt is not in the model's vocabulary of {} ids",
             ids[i], i, vocab_size);
    }
  }
}

KvCacheSpec cache_spec(const Decoder& decoder, const EngineOptions& options) {
  return decoder.cache_spec(BlockManager::blocks_for(options.num_cache_tokens), options.kv_dtype);
}

}  // namespace

Engine::Engine(Decoder& decoder, const EngineOptions& options)
    : decoder_(&decoder),
      options_(options),
      cache_(cache_spec(decoder, options)),
      scheduler_(options.scheduler, cache_.spec().num_blocks) {
  LLM_CHECK(options.scheduler.context > 0 && options.scheduler.context <= decoder.max_positions());
}

std::shared_ptr<const Sequence> Engine::add(Request request) {
  const int64_t prompt_length = static_cast<int64_t>(request.prompt_ids.size());
  const int64_t vocab_size = decoder_->config().vocab_size;
  const int64_t context = options_.scheduler.context;
  LLM_CHECK(request.num_ids > 0 && request.num_ids <= vocab_size);
  if (prompt_length == 0) refuse("the prompt has no tokens");
  if (prompt_length > context) {
    refuse(
        "the prompt has {} tokens, but the context holds {}: give a larger --ctx or a shorter "
        "prompt",
        prompt_length, context);
  }
  check_ids(request.prompt_ids, vocab_size);
  validate(request.sampling);
  auto sequence = std::make_shared<Sequence>(std::move(request));
  const int64_t most = scheduler_.most_blocks(*sequence);
  if (most > scheduler_.blocks().num_blocks()) {
    refuse(
        "the request may need {} blocks of the cache, which has {}: lower --max-tokens or raise "
        "--ctx",
        most, scheduler_.blocks().num_blocks());
  }
  scheduler_.add(sequence);
  return sequence;
}

std::vector<std::shared_ptr<const Sequence>> Engine::step() {
  const Schedule& schedule = scheduler_.next();
  if (schedule.rows.empty()) return {};
  const Batch batch = builder_.build(schedule.rows, schedule.num_decode_seqs);
  const ConstTensor logits = decoder_->forward(batch, cache_);
  deliver_prompt_logits(schedule, logits);
  const std::vector<int32_t> sampled = sample(schedule, logits);
  ++num_steps_;
  return scheduler_.done(sampled);
}

void Engine::finish(const Sequence& sequence, FinishReason reason) {
  scheduler_.finish(sequence, reason);
}

void Engine::deliver_prompt_logits(const Schedule& schedule, ConstTensor logits) const {
  int64_t first = 0;
  for (const ScheduledRows& rows : schedule.rows) {
    if (rows.all_logits) {
      const Sequence& sequence = *rows.sequence;
      sequence.request().on_prompt_logits(sequence.num_cached_tokens(),
                                          rows_of(logits, first, rows.num_tokens));
    }
    first += logits_rows(rows);
  }
}

std::vector<int32_t> Engine::sample(const Schedule& schedule, ConstTensor logits) {
  std::vector<int32_t> sampled(schedule.rows.size(), kNoNextId);
  int64_t end = 0;  // of this sequence's rows in logits
  for (size_t i = 0; i < schedule.rows.size(); ++i) {
    const ScheduledRows& rows = schedule.rows[i];
    end += logits_rows(rows);
    if (!rows.last_logits) continue;
    const Sequence& sequence = *rows.sequence;
    const SampleRow row{&sequence.request().sampling, sequence.prompt_ids(), sequence.output_ids(),
                        sequence.request().num_ids};
    try {
      decoder_->backend().sample({&sampled[i], 1}, rows_of(logits, end - 1, 1), {&row, 1});
    } catch (const Error& e) {
      throw Error(e.code(), fmt::format("step {}, position {}: {}", num_steps_,
                                        sequence.length() - 1, e.what()));
    }
  }
  return sampled;
}

}  // namespace llm
