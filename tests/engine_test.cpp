// The engine over a stand-in model: what is batched when, how sequences end, what is refused.
#include "engine/engine.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "base/error.h"
#include "counting_backend.h"
#include "counting_requests.h"

namespace llm {
namespace {

using Ids = std::vector<int32_t>;

Ids counting_up(int32_t first, int n) {
  Ids ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), first);
  for (int32_t& id : ids) id %= 100;
  return ids;
}

Ids to_vector(std::span<const int32_t> ids) { return {ids.begin(), ids.end()}; }

void run_all(Engine& engine) {
  while (engine.has_work()) engine.step();
}

TEST_CASE("one request: prefill, then one token a step") {
  CountingModel model(64);
  Engine engine(model.decoder(), options(64, 64));
  const auto sequence = engine.add(request({5, 6, 7}, 4));
  CHECK(sequence->state() == SequenceState::kWaiting);
  CHECK(engine.step().size() == 1);
  CHECK(sequence->state() == SequenceState::kRunning);
  CHECK(to_vector(sequence->output_ids()) == Ids{8});
  run_all(engine);
  CHECK(to_vector(sequence->output_ids()) == Ids{8, 9, 10, 11});
  CHECK(sequence->finish_reason() == FinishReason::kLength);
  CHECK(engine.num_steps() == 4);
  CHECK(engine.step().empty());

  const RecordedBatch& prefill = model.backend.batches[0];
  CHECK(prefill.input_ids == Ids{5, 6, 7});
  CHECK(prefill.positions == Ids{0, 1, 2});
  CHECK(prefill.logits_indices == Ids{2});
  CHECK(prefill.num_decode_rows == 0);
  const RecordedBatch& decode = model.backend.batches[1];
  CHECK(decode.input_ids == Ids{8});
  CHECK(decode.positions == Ids{3});
  CHECK(decode.seq_lens == Ids{4});
  CHECK(decode.num_decode_rows == 1);
  CHECK(decode.slot_mapping[0] == prefill.slot_mapping[2] + 1);
}

TEST_CASE("a stop id ends the sequence and is its last id") {
  CountingModel model(64);
  Engine engine(model.decoder(), options(64, 64));
  Request r = request({5}, kNoTokenLimit);
  r.stop_ids = {50, 8};
  const auto sequence = engine.add(r);
  run_all(engine);
  CHECK(to_vector(sequence->output_ids()) == Ids{6, 7, 8});
  CHECK(sequence->finish_reason() == FinishReason::kStop);
}

TEST_CASE("a full context ends with length: prompt 10 in 16 gives 6") {
  CountingModel model(16);
  Engine engine(model.decoder(), options(16, 16));
  const auto sequence = engine.add(request(counting_up(0, 10), kNoTokenLimit));
  run_all(engine);
  CHECK(sequence->output_length() == 6);
  CHECK(sequence->finish_reason() == FinishReason::kLength);
  const auto full = engine.add(request(counting_up(0, 16), kNoTokenLimit));
  run_all(engine);
  CHECK(full->output_length() == 0);
  CHECK(full->finish_reason() == FinishReason::kLength);
}

TEST_CASE("max_tokens 0 is prefill only, without logits") {
  CountingModel model(64);
  Engine engine(model.decoder(), options(64, 64));
  const auto sequence = engine.add(request({1, 2}, 0));
  CHECK(engine.step().empty());
  CHECK(sequence->finished());
  CHECK(sequence->num_cached_tokens() == 2);
  CHECK(model.backend.batches.at(0).logits_indices.empty());
}

TEST_CASE("prompts are cut at fixed multiples of their own position") {
  CountingModel model(64);
  EngineOptions o = options(64, 128);
  o.scheduler.prefill_chunk = 8;
  o.scheduler.max_num_seqs = 2;
  o.scheduler.max_num_batched_tokens = 20;
  Engine engine(model.decoder(), o);
  engine.add(request(counting_up(0, 19), 1));
  engine.add(request(counting_up(30, 9), 1));
  run_all(engine);
  // 8 of each; then 8 of the first and the last of the second; then 3 of the first.
  REQUIRE(model.backend.batches.size() == 3);
  CHECK(model.backend.batches[0].query_start_loc == Ids{0, 8, 16});
  CHECK(model.backend.batches[1].query_start_loc == Ids{0, 8, 9});
  CHECK(model.backend.batches[1].seq_lens == Ids{16, 9});
  CHECK(model.backend.batches[1].logits_indices == Ids{8});
  CHECK(model.backend.batches[2].seq_lens == Ids{19});
}

TEST_CASE("a prefill is also cut where the request asks for it") {
  CountingModel model(64);
  EngineOptions o = options(64, 64);
  o.scheduler.prefill_chunk = 8;
  Engine engine(model.decoder(), o);
  Request r = request(counting_up(0, 19), 1);
  r.prefill_cut = 11;
  engine.add(r);
  run_all(engine);
  Ids ends;
  for (const RecordedBatch& b : model.backend.batches) ends.push_back(b.seq_lens[0]);
  CHECK(ends == Ids{8, 11, 16, 19});
}

TEST_CASE("a prefill that is cut waits for the others to reach their cuts") {
  CountingModel model(64);
  EngineOptions o = options(64, 256);
  o.scheduler.prefill_chunk = 8;
  o.scheduler.max_num_batched_tokens = 24;
  Engine engine(model.decoder(), o);
  std::vector<std::shared_ptr<const Sequence>> all;
  for (int i = 0; i < 3; ++i) {
    Request r = request(counting_up(i, 19), 3);
    r.prefill_cut = 11;
    all.push_back(engine.add(r));
  }
  const auto reached = [&](int64_t n) {
    return std::all_of(all.begin(), all.end(),
                       [&](const auto& s) { return s->num_cached_tokens() >= n; });
  };
  while (!reached(11)) {
    for (const auto& sequence : all) CHECK(sequence->num_cached_tokens() <= 11);
    engine.step();
  }
  for (const auto& sequence : all) CHECK(sequence->num_cached_tokens() == 11);
  run_all(engine);
  for (const auto& sequence : all) CHECK(sequence->output_length() == 3);
}

TEST_CASE("decode rows come first, and a chunk that doesn't fit waits whole") {
  CountingModel model(64);
  EngineOptions o = options(64, 256);
  o.scheduler.prefill_chunk = 8;
  o.scheduler.max_num_seqs = 3;
  o.scheduler.max_num_batched_tokens = 11;
  Engine engine(model.decoder(), o);
  const auto first = engine.add(request({1}, 10));
  engine.step();
  engine.add(request(counting_up(20, 8), 10));
  engine.add(request(counting_up(40, 8), 10));
  engine.step();
  const RecordedBatch& mixed = model.backend.batches[1];
  CHECK(mixed.query_start_loc == Ids{0, 1, 9});  // the third sequence's 8 don't fit beside these
  CHECK(mixed.num_decode_rows == 1);
  CHECK(mixed.input_ids[0] == 2);
  engine.step();
  CHECK(model.backend.batches[2].num_decode_rows == 2);
  run_all(engine);
  CHECK(to_vector(first->output_ids()) == counting_up(2, 10));
}

TEST_CASE("sequences wait for free blocks, and blocks come back") {
  CountingModel model(64);
  Engine engine(model.decoder(), options(64, 64));  // 4 blocks
  std::vector<std::shared_ptr<const Sequence>> all;
  for (int i = 0; i < 5; ++i) all.push_back(engine.add(request(counting_up(i, 20), 10)));
  engine.step();
  CHECK(all[1]->state() == SequenceState::kRunning);
  CHECK(all[2]->state() == SequenceState::kWaiting);  // each may need 2 blocks
  run_all(engine);
  for (size_t i = 0; i < all.size(); ++i) {
    CHECK(to_vector(all[i]->output_ids()) == counting_up(static_cast<int32_t>(i) + 20, 10));
  }
  CHECK(engine.scheduler().blocks().num_free() == engine.scheduler().blocks().num_blocks());
}

TEST_CASE("a prefix that an earlier sequence computed is not computed again") {
  CountingModel model(64);
  Engine engine(model.decoder(), options(64, 128));
  const Ids prompt = counting_up(0, 40);
  const auto cold = engine.add(request(prompt, 3));
  run_all(engine);
  CHECK(cold->num_prefix_cached_tokens() == 0);
  const auto warm = engine.add(request(prompt, 3));
  run_all(engine);
  CHECK(warm->num_prefix_cached_tokens() == 32);
  CHECK(to_vector(warm->output_ids()) == to_vector(cold->output_ids()));
  const RecordedBatch& prefill = model.backend.batches[3];
  CHECK(prefill.input_ids == counting_up(32, 8));
  CHECK(prefill.positions == counting_up(32, 8));
  CHECK(prefill.seq_lens == Ids{40});

  // The answer is part of the next turn's prefix.
  const auto next_turn = engine.add(request(counting_up(0, 60), 1));
  run_all(engine);
  CHECK(next_turn->num_prefix_cached_tokens() == 32);  // 42 are cached, in whole blocks

  // Logits of every row need every row.
  Request all = request(prompt, 0);
  int64_t rows = 0;
  all.on_prompt_logits = [&](int64_t, ConstTensor logits) { rows += logits.shape[0]; };
  engine.add(all);
  run_all(engine);
  CHECK(rows == 40);
}

TEST_CASE("without the prefix cache every prompt is computed") {
  CountingModel model(64);
  EngineOptions o = options(64, 128);
  o.scheduler.prefix_cache = false;
  Engine engine(model.decoder(), o);
  for (int i = 0; i < 2; ++i) engine.add(request(counting_up(0, 40), 1));
  run_all(engine);
  CHECK(engine.add(request(counting_up(0, 40), 1))->num_prefix_cached_tokens() == 0);
  run_all(engine);
  CHECK(model.backend.batches.back().input_ids == counting_up(0, 40));
}

TEST_CASE("no slot is written by two sequences at once") {
  CountingModel model(64);
  EngineOptions o = options(64, 256);
  o.scheduler.prefill_chunk = 8;
  o.scheduler.max_num_batched_tokens = 40;
  Engine engine(model.decoder(), o);
  for (int i = 0; i < 8; ++i) engine.add(request(counting_up(10 * i, 3 + 5 * i), 7));
  run_all(engine);
  for (const RecordedBatch& b : model.backend.batches) {
    const std::set<int32_t> slots(b.slot_mapping.begin(), b.slot_mapping.end());
    CHECK(slots.size() == b.slot_mapping.size());
    for (size_t s = 0; s < b.seq_lens.size(); ++s) {
      for (int32_t row = b.query_start_loc[s]; row < b.query_start_loc[s + 1]; ++row) {
        const size_t r = static_cast<size_t>(row);
        const int32_t block = b.positions[r] / kKvBlockSize;
        const size_t entry = s * static_cast<size_t>(b.max_blocks) + static_cast<size_t>(block);
        CHECK(b.slot_mapping[r] ==
              b.block_tables[entry] * kKvBlockSize + b.positions[r] % kKvBlockSize);
      }
      CHECK(b.positions[static_cast<size_t>(b.query_start_loc[s + 1]) - 1] == b.seq_lens[s] - 1);
    }
  }
}

TEST_CASE("prompt logits come once each, also when a preempted prompt meets its own prefix") {
  CountingModel model(128);
  EngineOptions o = options(128, 9 * kKvBlockSize);
  o.scheduler.prefill_chunk = 16;
  o.scheduler.max_num_batched_tokens = 48;
  Engine engine(model.decoder(), o);
  const Ids prompt = counting_up(0, 64);
  const auto twin = engine.add(request(prompt, 40));
  while (twin->length() < 79) engine.step();  // two ids before it needs its sixth block
  int64_t next = 0;
  Request r = request(prompt, 1);
  r.on_prompt_logits = [&](int64_t first, ConstTensor logits) {
    CHECK(first == next);
    next += logits.shape[0];
  };
  engine.add(r);
  run_all(engine);
  CHECK(engine.scheduler().num_preemptions() == 1);
  CHECK(next == 64);
}

TEST_CASE("prompt logits arrive in order and cover every position once") {
  CountingModel model(64);
  EngineOptions o = options(64, 64);
  o.scheduler.prefill_chunk = 8;
  o.scheduler.max_num_batched_tokens = 40;
  Engine engine(model.decoder(), o);
  int64_t next = 0;
  Request r = request(counting_up(3, 19), 2);
  r.on_prompt_logits = [&](int64_t first, ConstTensor logits) {
    CHECK(first == next);
    REQUIRE(logits.shape == Shape({logits.shape[0], 100}));
    for (int64_t row = 0; row < logits.shape[0]; ++row) {
      CHECK(logits.as<float>()[row * 100 + first + row + 4] == 10.0f);
    }
    next += logits.shape[0];
  };
  const auto sequence = engine.add(r);
  run_all(engine);
  CHECK(next == 19);
  CHECK(to_vector(sequence->output_ids()) == Ids{22, 23});
}

TEST_CASE("finish() ends a running and a waiting sequence") {
  CountingModel model(64);
  Engine engine(model.decoder(), options(32, 32));
  const auto running = engine.add(request(counting_up(0, 20), kNoTokenLimit));
  const auto waiting = engine.add(request({1}, 5));
  engine.step();
  engine.finish(*waiting, FinishReason::kStop);
  CHECK(waiting->finished());
  engine.finish(*running, FinishReason::kStop);
  CHECK(running->finish_reason() == FinishReason::kStop);
  CHECK_FALSE(engine.has_work());
  CHECK(engine.scheduler().blocks().num_free() == engine.scheduler().blocks().num_blocks());
}

TEST_CASE("what can't run is refused with its numbers") {
  CountingModel model(16);
  Engine engine(model.decoder(), options(16, 16));
  CHECK_THROWS_WITH_AS(engine.add(request(counting_up(0, 20), 1)),
                       doctest::Contains("20 tokens, but the context holds 16"), Error);
  CHECK_THROWS_WITH_AS(engine.add(request({}, 1)), doctest::Contains("no tokens"), Error);
  CHECK_THROWS_WITH_AS(engine.add(request({1, 100}, 1)), doctest::Contains("id 100"), Error);
  CHECK_THROWS_WITH_AS(engine.add(request({-1}, 1)), doctest::Contains("id -1"), Error);
  Request r = request({1}, 1);
  r.sampling.top_p = 0;
  CHECK_THROWS_WITH_AS(engine.add(r), doctest::Contains("top_p"), Error);
  CHECK_FALSE(engine.has_work());
}

TEST_CASE("a NaN among the logits is an error naming step and position") {
  CountingModel model(64);
  model.backend.poisoned_id = 8;
  Engine engine(model.decoder(), options(64, 64));
  engine.add(request({5, 6}, 10));
  engine.step();
  engine.step();
  CHECK_THROWS_WITH_AS(engine.step(), doctest::Contains("step 2, position 3"), Error);
}

}  // namespace
}  // namespace llm
