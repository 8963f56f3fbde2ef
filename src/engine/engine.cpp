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
      blocks_(cache_.spec().num_blocks) {
  LLM_CHECK(options.context > 0 && options.context <= decoder.max_positions());
  LLM_CHECK(options.max_num_seqs > 0 && options.prefill_chunk > 0);
  LLM_CHECK(options.max_num_batched_tokens >= options.max_num_seqs + options.prefill_chunk);
}

std::shared_ptr<const Sequence> Engine::add(Request request) {
  const int64_t prompt_length = static_cast<int64_t>(request.prompt_ids.size());
  const int64_t vocab_size = decoder_->config().vocab_size;
  LLM_CHECK(request.num_ids > 0 && request.num_ids <= vocab_size);
  if (prompt_length == 0) refuse("the prompt has no tokens");
  if (prompt_length > options_.context) {
    refuse(
        "the prompt has {} tokens, but the context holds {}: give a larger --ctx or a shorter "
        "prompt",
        prompt_length, options_.context);
  }
  check_ids(request.prompt_ids, vocab_size);
  validate(request.sampling);
  auto sequence = std::make_shared<Sequence>(std::move(request));
  if (blocks_needed(*sequence) > blocks_.num_blocks()) {
    refuse(
        "the request may need {} blocks of the cache, which has {}: lower --max-tokens or raise "
        "--ctx",
        blocks_needed(*sequence), blocks_.num_blocks());
  }
  waiting_.push_back(sequence);
  return sequence;
}

std::vector<std::shared_ptr<const Sequence>> Engine::step() {
  admit();
  schedule();
  if (scheduled_.empty()) return {};
  const Batch batch = builder_.build(scheduled_, num_decode_seqs_);
  const ConstTensor logits = decoder_->forward(batch, cache_);
  deliver_prompt_logits(logits);
  const std::vector<int32_t> sampled = sample(logits);
  ++num_steps_;
  return advance(sampled);
}

void Engine::finish(const Sequence& sequence, FinishReason reason) {
  const auto is_it = [&](const SequencePtr& s) { return s.get() == &sequence; };
  if (const auto it = std::find_if(running_.begin(), running_.end(), is_it); it != running_.end()) {
    end(**it, reason);
    running_.erase(it);
  } else if (const auto w = std::find_if(waiting_.begin(), waiting_.end(), is_it);
             w != waiting_.end()) {
    (*w)->state_ = SequenceState::kFinished;
    (*w)->finish_reason_ = reason;
    waiting_.erase(w);
  }
}

int64_t Engine::blocks_needed(const Sequence& sequence) const {
  const int64_t room = options_.context - sequence.prompt_length();
  const int64_t most = sequence.prompt_length() + std::min(room, sequence.request().max_tokens);
  return BlockManager::blocks_for(most);
}

bool Engine::wants_token(const Sequence& sequence) const {
  return sequence.output_length() < sequence.request().max_tokens &&
         sequence.length() < options_.context;
}

void Engine::admit() {
  while (!waiting_.empty() && static_cast<int64_t>(running_.size()) < options_.max_num_seqs) {
    const SequencePtr& next = waiting_.front();
    const int64_t needed = blocks_needed(*next);
    if (reserved_blocks_ + needed > blocks_.num_blocks()) return;
    reserved_blocks_ += needed;
    next->state_ = SequenceState::kRunning;
    reuse_prefix(*next);
    running_.push_back(next);
    waiting_.pop_front();
  }
}

void Engine::reuse_prefix(Sequence& sequence) {
  // Logits of every row need every row computed.
  if (!options_.prefix_cache || sequence.request().on_prompt_logits != nullptr) return;
  sequence.num_cached_tokens_ = blocks_.reuse(sequence.block_table_, sequence.prompt_ids());
  sequence.num_prefix_cached_tokens_ = sequence.num_cached_tokens_;
}

void Engine::schedule() {
  scheduled_.clear();
  stepping_.clear();
  for (const SequencePtr& sequence : running_) {
    if (!sequence->in_prefill()) schedule_rows(sequence, 1);
  }
  num_decode_seqs_ = static_cast<int64_t>(scheduled_.size());
  int64_t num_tokens = num_decode_seqs_;
  for (const SequencePtr& sequence : running_) {
    if (!sequence->in_prefill()) continue;
    const int64_t rows = next_chunk(*sequence);
    if (num_tokens + rows > options_.max_num_batched_tokens) break;
    schedule_rows(sequence, rows);
    num_tokens += rows;
  }
}

int64_t Engine::next_chunk(const Sequence& sequence) const {
  const int64_t begin = sequence.num_cached_tokens();
  const int64_t cut = sequence.request().prefill_cut;
  int64_t end = (begin / options_.prefill_chunk + 1) * options_.prefill_chunk;
  end = std::min(end, sequence.prompt_length());
  if (begin < cut) end = std::min(end, cut);
  return end - begin;
}

void Engine::schedule_rows(const SequencePtr& sequence, int64_t num_tokens) {
  const int64_t end = sequence->num_cached_tokens() + num_tokens;
  const bool completes = end == sequence->length();
  const bool all = sequence->in_prefill() && sequence->request().on_prompt_logits != nullptr;
  blocks_.grow(sequence->block_table_, end);
  scheduled_.push_back({.sequence = sequence.get(),
                        .num_tokens = num_tokens,
                        .all_logits = all,
                        .last_logits = completes && wants_token(*sequence)});
  stepping_.push_back(sequence);
}

void Engine::deliver_prompt_logits(ConstTensor logits) const {
  int64_t first = 0;
  for (const ScheduledRows& rows : scheduled_) {
    if (rows.all_logits) {
      const Sequence& sequence = *rows.sequence;
      sequence.request().on_prompt_logits(sequence.num_cached_tokens(),
                                          rows_of(logits, first, rows.num_tokens));
    }
    first += logits_rows(rows);
  }
}

std::vector<int32_t> Engine::sample(ConstTensor logits) {
  std::vector<int32_t> sampled(scheduled_.size(), kNoToken);
  int64_t end = 0;  // of this sequence's rows in logits
  for (size_t i = 0; i < scheduled_.size(); ++i) {
    const ScheduledRows& rows = scheduled_[i];
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

std::vector<std::shared_ptr<const Sequence>> Engine::advance(const std::vector<int32_t>& sampled) {
  std::vector<std::shared_ptr<const Sequence>> advanced;
  for (size_t i = 0; i < scheduled_.size(); ++i) {
    Sequence& sequence = *stepping_[i];
    sequence.num_cached_tokens_ += scheduled_[i].num_tokens;
    if (options_.prefix_cache) {
      const auto cached = static_cast<size_t>(sequence.num_cached_tokens());
      blocks_.remember(sequence.block_table_, sequence.ids().first(cached));
    }
    if (sampled[i] != kNoToken) {
      append(sequence, sampled[i]);
      advanced.push_back(stepping_[i]);
    } else if (!sequence.in_prefill()) {
      end(sequence, FinishReason::kLength);
    }
  }
  std::erase_if(running_, [](const SequencePtr& s) { return s->finished(); });
  return advanced;
}

void Engine::append(Sequence& sequence, int32_t id) {
  sequence.ids_.push_back(id);
  const std::vector<int32_t>& stops = sequence.request().stop_ids;
  if (std::find(stops.begin(), stops.end(), id) != stops.end()) {
    end(sequence, FinishReason::kStop);
  } else if (!wants_token(sequence)) {
    end(sequence, FinishReason::kLength);
  }
}

void Engine::end(Sequence& sequence, FinishReason reason) {
  reserved_blocks_ -= blocks_needed(sequence);
  blocks_.release(sequence.block_table_);
  sequence.state_ = SequenceState::kFinished;
  sequence.finish_reason_ = reason;
}

}  // namespace llm
