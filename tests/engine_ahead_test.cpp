// The engine over a backend that runs ahead: it is asked for a step before the last one's ids are
// read, and no answer changes.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/error.h"
#include "counting_backend.h"
#include "counting_requests.h"
#include "engine/engine.h"

namespace llm {
namespace {

using Ids = std::vector<int32_t>;
using Answer = std::pair<Ids, FinishReason>;

TEST_CASE("running ahead: the next step is asked for while the ids of the last one are unread") {
  CountingModel model(64);
  model.backend.is_ahead = true;
  Engine engine(model.decoder(), options(64, 64));
  const auto sequence = engine.add(request({5, 6}, 4));
  std::vector<size_t> batches_after;
  while (engine.has_work()) {
    engine.step();
    batches_after.push_back(model.backend.batches.size());
  }
  CHECK(Ids(sequence->output_ids().begin(), sequence->output_ids().end()) == Ids{7, 8, 9, 10});
  // The last step isn't followed by one, as max_tokens says so.
  CHECK(batches_after == std::vector<size_t>{2, 3, 4, 4});
  CHECK(model.backend.batches[3].input_ids == Ids{9});
  CHECK(model.backend.batches[3].positions == Ids{4});
}

TEST_CASE("running ahead: an end that nobody foresaw costs a row, and others go on") {
  CountingModel model(64);
  model.backend.is_ahead = true;
  Engine engine(model.decoder(), options(64, 256));
  Request stops = request({5}, kNoTokenLimit);
  stops.stop_ids = {8};
  const auto first = engine.add(std::move(stops));
  const auto second = engine.add(request({50}, 6));
  while (engine.has_work()) engine.step();
  CHECK(Ids(first->output_ids().begin(), first->output_ids().end()) == Ids{6, 7, 8});
  CHECK(first->finish_reason() == FinishReason::kStop);
  CHECK(second->output_length() == 6);
  CHECK(engine.scheduler().blocks().num_free() == engine.scheduler().blocks().num_blocks());
  // And a request that comes when a step of ended ones is still under way.
  engine.finish(*engine.add(request({9}, 5)), FinishReason::kStop);
  const auto third = engine.add(request({20}, 2));
  while (engine.has_work()) engine.step();
  CHECK(Ids(third->output_ids().begin(), third->output_ids().end()) == Ids{21, 22});
}

TEST_CASE("running ahead: a fault of logits is reported at its own step") {
  CountingModel model(64);
  model.backend.is_ahead = true;
  model.backend.poisoned_id = 7;
  Engine engine(model.decoder(), options(64, 64));
  engine.add(request({5}, 10));
  engine.step();
  engine.step();
  CHECK_THROWS_WITH_AS(engine.step(), doctest::Contains("step 2, position 2: the logit"), Error);

  Engine other(model.decoder(), options(64, 64));
  Request stops = request({5}, 10);
  stops.stop_ids = {7};  // so what follows 7 is computed, but nobody's
  const auto sequence = other.add(std::move(stops));
  while (other.has_work()) other.step();
  CHECK(sequence->output_length() == 2);
}

struct Plan {
  Ids prompt;
  int64_t max_tokens;
  int32_t stop_id;
  int64_t stopped_after;  // by the caller, as for a stop string
  int64_t arrives;        // step
};

std::vector<Answer> run(const std::vector<Plan>& plans, EngineOptions options, bool ahead,
                        int64_t& preemptions) {
  CountingModel model(options.scheduler.context);
  model.backend.is_ahead = ahead;
  Engine engine(model.decoder(), options);
  std::vector<std::shared_ptr<const Sequence>> sequences;
  for (int64_t step = 0; sequences.size() < plans.size() || engine.has_work(); ++step) {
    while (sequences.size() < plans.size() && plans[sequences.size()].arrives <= step) {
      const Plan& plan = plans[sequences.size()];
      Request r = request(plan.prompt, plan.max_tokens);
      r.stop_ids = {plan.stop_id};
      sequences.push_back(engine.add(std::move(r)));
    }
    engine.step();
    for (size_t i = 0; i < sequences.size(); ++i) {
      const Sequence& sequence = *sequences[i];
      if (!sequence.finished() && sequence.output_length() == plans[i].stopped_after) {
        engine.finish(sequence, FinishReason::kStop);
      }
    }
  }
  CHECK(engine.scheduler().blocks().num_free() == engine.scheduler().blocks().num_blocks());
  preemptions += engine.scheduler().num_preemptions();
  std::vector<Answer> answers;
  for (const auto& sequence : sequences) {
    answers.push_back(
        {{sequence->ids().begin(), sequence->ids().end()}, sequence->finish_reason()});
  }
  return answers;
}

TEST_CASE("running ahead: random requests, ends and caches give the answers of one step a time") {
  std::mt19937 random(5);
  const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
  int64_t preemptions = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    EngineOptions options{.scheduler = {.context = 96}};
    options.scheduler.max_num_seqs = 1 + below(7);
    options.scheduler.prefill_chunk = 16 * (1 + below(3));
    options.scheduler.prefix_cache = below(2) == 0;
    options.scheduler.fit_batched_tokens();
    options.num_cache_tokens = 96 + 16 * below(10);
    std::vector<Plan> plans(static_cast<size_t>(1 + below(20)));
    for (Plan& plan : plans) {
      plan.prompt.resize(static_cast<size_t>(1 + below(60)));
      for (int32_t& id : plan.prompt) id = static_cast<int32_t>(below(3));
      plan.max_tokens = below(6) == 0 ? kNoTokenLimit : below(40);
      plan.stop_id = static_cast<int32_t>(below(60));
      plan.stopped_after = below(3) == 0 ? 1 + below(20) : 1000;
      plan.arrives = below(30);
    }
    std::sort(plans.begin(), plans.end(),
              [](const Plan& a, const Plan& b) { return a.arrives < b.arrives; });
    CHECK(run(plans, options, true, preemptions) == run(plans, options, false, preemptions));
  }
  CHECK(preemptions > 50);
}

}  // namespace
}  // namespace llm
