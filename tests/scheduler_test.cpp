// The scheduler alone: random requests, caches and ends, with made-up ids instead of a model.
#include "engine/scheduler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace llm {
namespace {

/// What the engine does with a schedule, without computing anything: the next id of a sequence is a
/// function of its ids so far, so that a row computed twice gives the same.
class FakeEngine {
 public:
  FakeEngine(const SchedulerOptions& options, int64_t num_blocks)
      : options_(options), scheduler_(options, num_blocks) {}

  Scheduler& scheduler() { return scheduler_; }

  SequencePtr add(std::vector<int32_t> prompt, int64_t max_tokens,
                  std::vector<int32_t> stop_ids = {0}) {
    Request request;
    request.prompt_ids = std::move(prompt);
    request.max_tokens = max_tokens;
    request.num_ids = 1000;
    request.stop_ids = std::move(stop_ids);
    auto sequence = std::make_shared<Sequence>(std::move(request));
    scheduler_.add(sequence);
    return sequence;
  }

  /// The id that follows these; 0 ends a sequence.
  static int32_t next_id(std::span<const int32_t> ids) {
    uint32_t hash = 17;
    for (const int32_t id : ids) hash = hash * 31 + static_cast<uint32_t>(id);
    return static_cast<int32_t>(hash >> 8) % 40;
  }

  /// Some right guesses, some wrong.
  void propose(Schedule& schedule) {
    for (size_t i = 0; i < schedule.rows.size(); ++i) {
      const Sequence& sequence = *schedule.sequences[i];
      for (int64_t j = 0; j < schedule.rows[i].max_proposals; ++j) {
        const int32_t right = next_id(sequence.ids_with_proposals());
        schedule.propose(i, right % 5 == 1 ? right + 1 : right);
      }
    }
  }

  static std::vector<int32_t> verified(const Sequence& sequence) {
    std::vector<int32_t> ids;
    const auto proposals = sequence.proposals();
    do {
      const size_t length = static_cast<size_t>(sequence.length()) + ids.size();
      ids.push_back(next_id(sequence.ids_with_proposals().first(length)));
    } while (ids.size() <= proposals.size() && ids.back() == proposals[ids.size() - 1] &&
             !sequence.stops_at(ids.back()));
    return ids;
  }

  /// Checks the schedule and pretends to run it. False when there is no work.
  bool step() {
    Schedule& schedule = scheduler_.next();
    propose(schedule);
    if (schedule.rows.empty()) return false;
    check(schedule);
    std::vector<std::vector<int32_t>> next;
    for (const ScheduledRows& rows : schedule.rows) {
      next.emplace_back();
      if (rows.samples) next.back() = verified(*rows.sequence);
    }
    scheduler_.done(next);
    return true;
  }

 private:
  void check(const Schedule& schedule) {
    int64_t num_tokens = 0;
    std::map<int32_t, int> writers;  // block: sequences that write to it
    std::set<const Sequence*> seen;
    for (size_t i = 0; i < schedule.rows.size(); ++i) {
      const ScheduledRows& rows = schedule.rows[i];
      const Sequence& sequence = *rows.sequence;
      REQUIRE(schedule.sequences[i].get() == &sequence);
      REQUIRE(seen.insert(&sequence).second);
      const bool decodes = static_cast<int64_t>(i) < schedule.num_decode_seqs;
      REQUIRE(decodes != sequence.in_prefill());
      const int64_t begin = sequence.num_cached_tokens();
      const int64_t end = begin + rows.num_tokens;
      REQUIRE(rows.begin == begin);
      REQUIRE(end <= sequence.length() + sequence.num_proposals());
      REQUIRE(end <= options_.context);
      if (decodes) {
        REQUIRE(end == sequence.length() + sequence.num_proposals());
      } else {
        REQUIRE((end % options_.prefill_chunk == 0 || end == sequence.length()));
        REQUIRE(begin / options_.prefill_chunk == (end - 1) / options_.prefill_chunk);
      }
      REQUIRE(kv_blocks_for(end) <= static_cast<int64_t>(sequence.block_table().size()));
      for (int64_t block = begin / kKvBlockSize; block * kKvBlockSize < end; ++block) {
        ++writers[sequence.block_table()[static_cast<size_t>(block)]];
      }
      num_tokens += rows.num_tokens;
    }
    for (const auto& [block, count] : writers) REQUIRE(count == 1);
    REQUIRE(num_tokens <= options_.max_num_batched_tokens);
    REQUIRE(scheduler_.num_running() <= options_.max_num_seqs);
  }

  SchedulerOptions options_;
  Scheduler scheduler_;
};

/// The ids that a request must end with, computed without any scheduler.
std::vector<int32_t> expected_ids(std::vector<int32_t> ids, int64_t max_tokens, int64_t context) {
  for (int64_t i = 0; i < max_tokens && static_cast<int64_t>(ids.size()) < context; ++i) {
    ids.push_back(FakeEngine::next_id(ids));
    if (ids.back() == 0) break;
  }
  return ids;
}

std::vector<int32_t> random_prompt(std::mt19937& random, int64_t most) {
  std::vector<int32_t> prompt(1 + random() % static_cast<uint32_t>(most));
  const uint32_t alphabet = random() % 3 == 0 ? 1 : 40;  // some share prefixes
  for (int32_t& id : prompt) id = 1 + static_cast<int32_t>(random() % alphabet);
  return prompt;
}

TEST_CASE("random requests, caches and ends: every request gets its ids, and no block is lost") {
  std::mt19937 random(3);
  int64_t preemptions = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    SchedulerOptions options{.context = 120};
    options.max_num_seqs = 1 + random() % 9;
    options.prefill_chunk = 16 * (1 + random() % 3);
    options.max_num_batched_tokens = options.max_num_seqs + options.prefill_chunk + random() % 40;
    options.prefix_cache = random() % 2 == 0;
    options.block_size = kKvBlockSize * (1 + random() % 3);
    const int64_t least = BlockManager(1000, options.block_size).blocks_for(options.context);
    FakeEngine engine(options, least + random() % 12);

    struct Expected {
      SequencePtr sequence;
      std::vector<int32_t> ids;
    };
    std::vector<Expected> all;
    const size_t wanted = 1 + random() % 30;
    while (all.size() < wanted || engine.scheduler().has_work()) {
      while (all.size() < wanted && random() % 3 != 0) {  // some arrive later
        const std::vector<int32_t> prompt = random_prompt(random, 100);
        const int64_t max_tokens = random() % 8 == 0 ? kNoTokenLimit : random() % 40;
        all.push_back(
            {engine.add(prompt, max_tokens), expected_ids(prompt, max_tokens, options.context)});
      }
      if (random() % 40 == 0 && !all.empty()) {  // a stop string, seen from outside
        Expected& ended = all[random() % all.size()];
        if (!ended.sequence->finished()) {
          engine.scheduler().finish(*ended.sequence, FinishReason::kStop);
          ended.ids.assign(ended.sequence->ids().begin(), ended.sequence->ids().end());
        }
      }
      const bool has_work = engine.scheduler().has_work();
      REQUIRE(engine.step() == has_work);
    }
    for (const Expected& e : all) {
      REQUIRE(e.sequence->finished());
      REQUIRE(std::vector<int32_t>(e.sequence->ids().begin(), e.sequence->ids().end()) == e.ids);
      REQUIRE(e.sequence->block_table().empty());
    }
    REQUIRE(engine.scheduler().blocks().num_free() == engine.scheduler().blocks().num_blocks());
    preemptions += engine.scheduler().num_preemptions();
  }
  CHECK(preemptions > 100);
}

TEST_CASE("who came first starts first and is never preempted for a later one") {
  FakeEngine engine({.context = 64, .max_num_seqs = 4}, 6);
  std::vector<SequencePtr> all;
  for (int i = 0; i < 6; ++i) all.push_back(engine.add({7, 7, i + 1}, 61, {}));
  std::vector<bool> started(all.size());
  while (engine.step()) {
    for (size_t i = 0; i < all.size(); ++i) {
      started[i] = started[i] || all[i]->num_cached_tokens() > 0;
      if (i > 0 && started[i]) CHECK(started[i - 1]);
    }
    const auto first =
        std::find_if(all.begin(), all.end(), [](const SequencePtr& s) { return !s->finished(); });
    if (first == all.end() || engine.scheduler().num_running() == 0) continue;
    CHECK((*first)->state() == SequenceState::kRunning);
  }
  CHECK(engine.scheduler().num_preemptions() > 0);
}

TEST_CASE("64 requests of mixed lengths leave less than 4 % of their blocks empty") {
  std::mt19937 random(4);
  SchedulerOptions options{.context = 2048, .max_num_seqs = 64};
  options.fit_batched_tokens();
  FakeEngine engine(options, 64 * kv_blocks_for(options.context));
  std::vector<SequencePtr> all;
  for (int32_t i = 0; i < 64; ++i) {
    std::vector<int32_t> prompt(100 + random() % 1901, 1 + i);  // no prefix in common
    all.push_back(engine.add(std::move(prompt), 48, {}));
  }
  double worst = 0;
  while (engine.step()) {
    const BlockManager& blocks = engine.scheduler().blocks();
    const int64_t room = (blocks.num_blocks() - blocks.num_free()) * kKvBlockSize;
    int64_t tokens = 0;
    for (const SequencePtr& s : all) tokens += s->block_table().empty() ? 0 : s->length();
    if (engine.scheduler().num_running() == 64) {
      worst = std::max(worst, 1 - static_cast<double>(tokens) / static_cast<double>(room));
    }
  }
  CHECK(worst > 0);
  CHECK(worst < 0.04);
  MESSAGE("most of the blocks' room that was empty: " << 100 * worst << " %");
}

TEST_CASE("a step in which nothing was guessed leaves the number of guesses as it is") {
  SchedulerOptions options{.context = 64, .max_num_seqs = 1, .max_proposals = 8};
  options.first_proposals = 8;
  options.fit_batched_tokens();
  Scheduler scheduler(options, 4);
  Request request;
  request.prompt_ids = {1, 2, 3};
  scheduler.add(std::make_shared<Sequence>(std::move(request)));
  const auto step = [&](std::vector<int32_t> ids) {
    const std::vector<int32_t> next[] = {std::move(ids)};
    scheduler.done(next);
  };
  CHECK(scheduler.next().rows[0].max_proposals == 0);  // the prompt
  step({4});
  for (int i = 0; i < 3; ++i) {
    CHECK(scheduler.next().rows[0].max_proposals == 8);
    step({5});
  }
  Schedule& schedule = scheduler.next();
  for (const int32_t id : {6, 7, 8, 9}) schedule.propose(0, id);
  step({6, 7, 5});  // two were right
  CHECK(scheduler.next().rows[0].max_proposals == 3);
}

TEST_CASE("a preempted sequence finds its blocks in the prefix cache again") {
  FakeEngine engine({.context = 96, .max_num_seqs = 2}, 6);
  const SequencePtr first = engine.add(std::vector<int32_t>(30, 1), 60, {});
  const SequencePtr second = engine.add(std::vector<int32_t>(40, 2), 60, {});
  while (engine.scheduler().num_preemptions() == 0) REQUIRE(engine.step());
  CHECK(second->state() == SequenceState::kWaiting);
  CHECK(second->block_table().empty());
  const int64_t length = second->length();
  while (second->state() == SequenceState::kWaiting) REQUIRE(engine.step());
  CHECK(second->length() >= length);
  CHECK(second->num_prefix_cached_tokens() == 0);  // of its own past, which isn't a saving
  while (engine.step()) {
  }
  CHECK(first->finished());
  CHECK(second->finished());
}

}  // namespace
}  // namespace llm
