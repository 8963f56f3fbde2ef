// Speculation: the tokens of plain decoding, in fewer forward passes.
#include "engine/speculative.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/session.h"
#include "text/chat_template.h"

namespace llm {
namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kContext = 512;

/// A built-in model and its tokenizer.
class BuiltinModel {
 public:
  explicit BuiltinModel(const char* name)
      : choice_{.model = name, .config = {}, .random_weights = {}, .tokenizer = {}},
        files_(open_model(choice_, Device::kCpu, Log(Verbosity::kQuiet))),
        model_(files_, choice_, DeviceChoice{}, 0, kContext, Log(Verbosity::kQuiet)) {}

  Decoder& decoder() { return model_.decoder(); }
  const ModelFiles& files() const { return files_; }

  Ids prompt(const std::string& question) const {
    ChatInput input;
    input.messages = parse_json_value(
        fmt::format(R"([{{"role": "user", "content": "{}"}}])", question), "messages");
    input.enable_thinking = false;
    return files_.tokenizer->encode(
        load_chat_template(files_.tokenizer_dir, false)->render(input).text);
  }

 private:
  ModelChoice choice_;
  ModelFiles files_;
  LoadedModel model_;
};

struct Run {
  std::vector<Ids> answers;
  int64_t num_steps = 0;
  int64_t num_proposed = 0;
  int64_t num_accepted = 0;
};

/// Answers to all prompts, a few at a time; `draft` null: with look-up.
struct Speculation {
  int64_t max_proposals = 0;
  BuiltinModel* draft = nullptr;
  int64_t num_cache_tokens = 8 * kContext;
};

Run run(BuiltinModel& target, const std::vector<Request>& requests, const Speculation& how) {
  SchedulerOptions scheduler{
      .context = kContext, .max_num_seqs = 3, .max_proposals = how.max_proposals};
  scheduler.fit_batched_tokens();
  std::unique_ptr<Proposer> proposer;
  if (how.draft != nullptr) {
    proposer = std::make_unique<DraftProposer>(how.draft->decoder(),
                                               kv_blocks_for(how.num_cache_tokens), DType::kBF16);
  } else if (how.max_proposals > 0) {
    proposer = std::make_unique<NgramProposer>();
  }
  Engine engine(target.decoder(),
                {.scheduler = scheduler, .num_cache_tokens = how.num_cache_tokens},
                std::move(proposer));
  std::vector<std::shared_ptr<const Sequence>> sequences;
  for (const Request& request : requests) sequences.push_back(engine.add(request));
  while (engine.has_work()) engine.step();
  Run result{.answers = {}, .num_steps = engine.num_steps()};
  for (const auto& sequence : sequences) {
    result.answers.emplace_back(sequence->output_ids().begin(), sequence->output_ids().end());
    result.num_proposed += sequence->num_proposed();
    result.num_accepted += sequence->num_accepted();
  }
  const BlockManager& blocks = engine.scheduler().blocks();
  CHECK(blocks.num_free() == blocks.num_blocks());
  return result;
}

std::vector<Request> requests_for(const BuiltinModel& model, float temperature) {
  std::vector<Request> requests;
  for (const char* question :
       {"Tell me a short story about a fox.", "Count from 30 to 49.", "What is 47 + 38?",
        "Say exactly this: Rosa holds the hungry fish near the pig. Ben sees the pig.",
        "从前有一只猫。讲一个小故事。", "What is the capital of France?"}) {
    Request request;
    request.prompt_ids = model.prompt(question);
    request.sampling.temperature = temperature;
    request.sampling.seed = 40 + requests.size();
    request.sampling.repetition_penalty = requests.size() % 2 == 0 ? 1.0f : 1.1f;
    request.stop_ids = model.files().stop_ids;
    request.max_tokens = 90;
    request.num_ids = model.files().num_ids();
    requests.push_back(std::move(request));
  }
  return requests;
}

TEST_CASE("P1: a draft or look-up changes no token, greedy or drawn, and saves forward passes") {
  BuiltinModel tiny("tiny"), draft("tiny-draft");
  for (const float temperature : {0.0f, 0.8f}) {
    CAPTURE(temperature);
    const std::vector<Request> requests = requests_for(tiny, temperature);
    const Run plain = run(tiny, requests, {});
    for (const int64_t k : {1, 2, 3, 5, 8}) {
      CAPTURE(k);
      const Run drafted = run(tiny, requests, {.max_proposals = k, .draft = &draft});
      CHECK(drafted.answers == plain.answers);
      CHECK(drafted.num_steps < plain.num_steps);
      CHECK(drafted.num_accepted > 0);
      CHECK(drafted.num_accepted < drafted.num_proposed);
      const Run looked_up = run(tiny, requests, {.max_proposals = k});
      CHECK(looked_up.answers == plain.answers);
      CHECK(looked_up.num_steps <= plain.num_steps);
      CHECK(looked_up.num_accepted > 0);
    }
  }
}

TEST_CASE("a model that drafts for itself is always right") {
  BuiltinModel tiny("tiny"), twin("tiny");
  for (const float temperature : {0.0f, 1.0f}) {
    CAPTURE(temperature);
    const std::vector<Request> requests = requests_for(tiny, temperature);
    const Run self = run(tiny, requests, {.max_proposals = 6, .draft = &twin});
    CHECK(self.num_proposed > 100);
    // Of the last proposals those behind a stop id don't count.
    CHECK(self.num_accepted >= self.num_proposed - 6 * static_cast<int64_t>(requests.size()));
    CHECK(self.answers == run(tiny, requests, {}).answers);
  }
}

TEST_CASE("look-up guesses what followed, also from the first ids on and around a repetition") {
  const auto guesses = [](Ids prompt, int64_t max_proposals) {
    Request request;
    request.prompt_ids = std::move(prompt);
    auto sequence = std::make_shared<Sequence>(std::move(request));
    Schedule schedule;
    schedule.rows.push_back({.sequence = sequence.get(), .max_proposals = max_proposals});
    schedule.sequences.push_back(sequence);
    schedule.num_decode_seqs = 1;
    NgramProposer().propose(schedule);
    const auto proposals = sequence->proposals();
    return Ids(proposals.begin(), proposals.end());
  };
  CHECK(guesses({1, 2, 3, 4, 5, 6, 7, 1, 2}, 4) == Ids{3, 4, 5, 6});
  CHECK(guesses({1, 2, 1, 2}, 5) == Ids{1, 2, 1, 2, 1});
  CHECK(guesses({5, 1, 2, 3, 9, 1, 2, 8, 1, 2}, 2) == Ids{8, 1});  // the latest
  CHECK(guesses({9, 1, 2, 7, 4, 1, 2, 8, 9, 1, 2}, 1) == Ids{7});  // the longest
  CHECK(guesses({1, 2, 3}, 4).empty());
  CHECK(guesses({7}, 4).empty());
}

TEST_CASE("speculation with preemption: the same tokens, and all blocks come back") {
  BuiltinModel tiny("tiny"), draft("tiny-draft");
  const std::vector<Request> requests = requests_for(tiny, 0.0f);
  const Run plain = run(tiny, requests, {});
  const int64_t narrow = 12 * kKvBlockSize;
  CHECK(run(tiny, requests, {.max_proposals = 5, .draft = &draft, .num_cache_tokens = narrow})
            .answers == plain.answers);
  CHECK(run(tiny, requests, {.max_proposals = 5, .num_cache_tokens = narrow}).answers ==
        plain.answers);
}

TEST_CASE("P3: a stop id or the limit inside a block of right guesses ends the answer there") {
  BuiltinModel tiny("tiny"), twin("tiny");
  std::vector<Request> requests = requests_for(tiny, 0.0f);
  const Run plain = run(tiny, requests, {});
  const Ids& story = plain.answers[0];
  REQUIRE(story.size() > 20);
  for (int64_t limit = 1; limit < 12; ++limit) {
    requests[0].max_tokens = limit;
    const Ids cut(story.begin(), story.begin() + limit);
    CHECK(run(tiny, {requests[0]}, {.max_proposals = 6, .draft = &twin}).answers[0] == cut);
  }
  requests[0].max_tokens = 90;
  for (size_t stop = 1; stop < 12; ++stop) {
    requests[0].stop_ids = {story[stop]};
    const auto first = std::find(story.begin(), story.end(), story[stop]);
    CHECK(run(tiny, {requests[0]}, {.max_proposals = 6, .draft = &twin}).answers[0] ==
          Ids(story.begin(), first + 1));
  }
}

TEST_CASE("drawn tokens follow the target's distribution, whatever the draft is") {
  // The first two tokens of an answer at temperature 1.5, over seeds: chi-square against the counts
  // of plain decoding would be trivial (they are equal), so against the target's own probabilities.
  BuiltinModel tiny("tiny"), draft("tiny-draft");
  Request request;
  request.prompt_ids = tiny.prompt("Tell me a story.");
  const Ids begun = tiny.files().tokenizer->encode("Once there was");  // then "a", then an animal
  request.prompt_ids.insert(request.prompt_ids.end(), begun.begin(), begun.end());
  request.sampling.temperature = 1.5f;
  request.num_ids = tiny.files().num_ids();
  request.max_tokens = 3;
  constexpr int kRuns = 3000;
  std::map<int32_t, int> seen;  // the second id, where the first is the most frequent one
  std::map<int32_t, int> first_ids;
  std::vector<Ids> answers;
  std::vector<Request> requests(kRuns, request);
  for (int i = 0; i < kRuns; ++i)
    requests[static_cast<size_t>(i)].sampling.seed = static_cast<uint64_t>(i);
  const Run drafted = run(tiny, requests, {.max_proposals = 2, .draft = &draft});
  CHECK(drafted.num_accepted > kRuns / 10);
  for (const Ids& ids : drafted.answers) ++first_ids[ids[0]];
  const int32_t first = std::max_element(first_ids.begin(), first_ids.end(), [](auto& a, auto& b) {
                          return a.second < b.second;
                        })->first;
  int total = 0;
  for (const Ids& ids : drafted.answers) {
    if (ids[0] != first) continue;
    ++seen[ids[1]];
    ++total;
  }
  REQUIRE(total > 200);

  std::vector<double> probabilities;  // of the second id
  Request scored = request;
  scored.prompt_ids.push_back(first);
  scored.max_tokens = 0;
  scored.on_prompt_logits = [&](int64_t position, ConstTensor logits) {
    const int64_t row = std::ssize(scored.prompt_ids) - 1 - position;
    if (row < 0 || row >= logits.shape[0]) return;
    const float* values = logits.as<float>() + row * logits.shape[1];
    double sum = 0;
    for (int64_t i = 0; i < scored.num_ids; ++i) {
      probabilities.push_back(std::exp(static_cast<double>(values[i]) / 1.5));
      sum += probabilities.back();
    }
    for (double& p : probabilities) p /= sum;
  };
  run(tiny, {scored}, {});
  REQUIRE(std::ssize(probabilities) == scored.num_ids);

  double chi_square = 0;
  double rest = 1;
  int rest_seen = total, cells = 0;
  for (size_t id = 0; id < probabilities.size(); ++id) {
    const double expected = probabilities[id] * total;
    if (expected < 5) continue;  // the rule of thumb; all others are one cell
    const double off = seen[static_cast<int32_t>(id)] - expected;
    chi_square += off * off / expected;
    rest -= probabilities[id];
    rest_seen -= seen[static_cast<int32_t>(id)];
    ++cells;
  }
  CAPTURE(cells);
  CAPTURE(chi_square);
  REQUIRE(cells >= 3);
  chi_square += (rest_seen - rest * total) * (rest_seen - rest * total) / (rest * total);
  // Mean `cells`, variance 2 cells: five standard deviations above the mean.
  CHECK(chi_square < cells + 5 * std::sqrt(2.0 * cells));
}

}  // namespace
}  // namespace llm
