// One request gives the same bits alone and in any company: the promise of one order of
// accumulation per output, whatever shares the step. Row E9 of users' reports.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/cpu_info.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "checkpoint_maker.h"
#include "engine/engine.h"
#include "engine/speculative.h"
#include "io/safetensors.h"
#include "model/decoder.h"
#include "model/weights.h"
#include "test_data.h"

namespace llm {
namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kContext = 128;
constexpr int64_t kNewTokens = 12;
constexpr int64_t kVocabSize = 384;

/// What a request gave: the logits of its prompt's positions, then what was generated.
struct Outcome {
  std::vector<float> prompt_logits;
  Ids ids;
  int64_t cached_tokens = 0;  // not part of the comparison
  bool operator==(const Outcome& other) const {
    return ids == other.ids && prompt_logits.size() == other.prompt_logits.size() &&
           std::memcmp(prompt_logits.data(), other.prompt_logits.data(),
                       prompt_logits.size() * sizeof(float)) == 0;
  }
};

struct Setting {
  Isa isa = Isa::kGeneric;
  ActDType act = ActDType::kF32;
  DType kv_dtype = DType::kF32;
  int threads = 2;
  int64_t prefill_chunk = 16;
  std::optional<int64_t> cache_tokens = {};  // default: enough for all
  int64_t block_size = kKvBlockSize;
};

/// A model under one setting.
class Model {
 public:
  Model(const std::filesystem::path& dir, const Setting& setting)
      : setting_(setting),
        pool_(setting.threads),
        backend_(make_cpu_backend(pool_, setting.act, setting.isa)) {
    const ModelConfig config = load_model_config(dir);
    auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(dir));
    decoder_ = std::make_unique<Decoder>(config, load_weights(config, checkpoint, Log()), *backend_,
                                         kContext);
  }

  enum class Order { kTogether, kOneAfterTheOther };

  /// Runs all prompts through one engine. Those that want their logits get nothing from the prefix
  /// cache.
  std::vector<Outcome> run(const std::vector<Ids>& prompts, bool with_logits,
                           Order order = Order::kTogether) {
    const int64_t num_prompts = static_cast<int64_t>(prompts.size());
    SchedulerOptions scheduler{.context = kContext,
                               .max_num_seqs = order == Order::kTogether ? num_prompts : 1,
                               .prefill_chunk = setting_.prefill_chunk,
                               .block_size = setting_.block_size};
    scheduler.max_num_batched_tokens = scheduler.max_num_seqs + 3 * scheduler.prefill_chunk;
    Engine engine(*decoder_,
                  {.scheduler = scheduler,
                   .num_cache_tokens = setting_.cache_tokens.value_or(kContext * num_prompts),
                   .kv_dtype = setting_.kv_dtype});
    std::vector<Outcome> outcomes(prompts.size());
    std::vector<std::shared_ptr<const Sequence>> sequences;
    for (size_t i = 0; i < prompts.size(); ++i) {
      Request request;
      request.prompt_ids = prompts[i];
      request.max_tokens = kNewTokens;
      request.num_ids = decoder_->config().vocab_size;
      if (with_logits) {
        request.on_prompt_logits = [&out = outcomes[i].prompt_logits](int64_t, ConstTensor rows) {
          const float* values = rows.as<float>();
          out.insert(out.end(), values, values + rows.shape.num_elements());
        };
      }
      sequences.push_back(engine.add(std::move(request)));
    }
    while (engine.has_work()) engine.step();
    num_preemptions_ = engine.scheduler().num_preemptions();
    for (size_t i = 0; i < prompts.size(); ++i) {
      outcomes[i].ids.assign(sequences[i]->output_ids().begin(), sequences[i]->output_ids().end());
      outcomes[i].cached_tokens = sequences[i]->num_prefix_cached_tokens();
    }
    return outcomes;
  }

  /// Runs the prompts through a random schedule: how many at once, in which chunks and blocks, with
  /// how much cache, with look-up or not, each arriving when it happens to; half of them drawn.
  std::vector<Outcome> run_random(const std::vector<Ids>& prompts, std::mt19937& random) {
    const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
    SchedulerOptions scheduler{.context = kContext,
                               .max_num_seqs = 1 + below(9),
                               .prefill_chunk = 1 + below(64),
                               .block_size = kKvBlockSize * (1 + below(3)),
                               .prefix_cache = below(2) == 0,
                               .max_proposals = 4 * below(2)};
    scheduler.max_num_batched_tokens =
        scheduler.most_decode_rows() + scheduler.prefill_chunk + below(100);
    const int64_t room = kContext + kKvBlockSize * below(30);
    Engine engine(*decoder_,
                  {.scheduler = scheduler, .num_cache_tokens = room, .kv_dtype = setting_.kv_dtype},
                  scheduler.max_proposals > 0 ? std::make_unique<NgramProposer>() : nullptr);
    std::vector<std::shared_ptr<const Sequence>> sequences;
    while (sequences.size() < prompts.size() || engine.has_work()) {
      while (sequences.size() < prompts.size() && random() % 3 != 0) {
        sequences.push_back(engine.add(request_of(prompts[sequences.size()], sequences.size())));
      }
      engine.step();
    }
    num_preemptions_ += engine.scheduler().num_preemptions();
    std::vector<Outcome> outcomes;
    for (const auto& s : sequences) {
      num_accepted_ += s->num_accepted();
      outcomes.push_back({{}, {s->output_ids().begin(), s->output_ids().end()}});
    }
    return outcomes;
  }

  /// The same requests one after the other, with nothing special.
  std::vector<Outcome> run_alone(const std::vector<Ids>& prompts) {
    std::vector<Outcome> outcomes;
    for (size_t i = 0; i < prompts.size(); ++i) {
      Engine engine(*decoder_, {.scheduler = {.context = kContext, .max_num_seqs = 1},
                                .num_cache_tokens = kContext,
                                .kv_dtype = setting_.kv_dtype});
      const auto s = engine.add(request_of(prompts[i], i));
      while (engine.has_work()) engine.step();
      outcomes.push_back({{}, {s->output_ids().begin(), s->output_ids().end()}});
    }
    return outcomes;
  }

  /// In the last run(), or in all of run_random().
  int64_t num_preemptions() const { return num_preemptions_; }
  int64_t num_accepted() const { return num_accepted_; }

 private:
  Request request_of(const Ids& prompt, size_t index) const {
    Request request;
    request.prompt_ids = prompt;
    request.max_tokens = static_cast<int64_t>(index * 7 % 40);
    request.num_ids = decoder_->config().vocab_size;
    if (index % 2 == 1) request.sampling = {.temperature = 0.8f, .seed = index % 3};
    return request;
  }

  int64_t num_preemptions_ = 0;
  int64_t num_accepted_ = 0;
  Setting setting_;
  ThreadPool pool_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Decoder> decoder_;
};

Ids random_ids(std::mt19937& random, int64_t length) {
  Ids ids(static_cast<size_t>(length));
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % kVocabSize);
  return ids;
}

std::filesystem::path random_model(const char* test) {
  const std::filesystem::path dir = fresh_test_dir(test) / "model";
  write_random2(dir, {.vocab_size = kVocabSize});
  return dir;
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const Isa isa : supported_isas()) {
    all.push_back({isa, ActDType::kF32, DType::kF32});
    for (const DType dtype : {DType::kBF16, DType::kF8E4M3, DType::kI8}) {
      all.push_back({isa, ActDType::kBF16, dtype});
    }
  }
  return all;
}

TEST_CASE("E9: a request's bits don't depend on its company, chunks and threads") {
  const std::filesystem::path folder = random_model("batch-invariance");
  std::mt19937 random(5);
  std::vector<Ids> prompts;
  for (const int64_t length : {23, 1, 40, 16, 7, 61, 33, 2, 50}) {
    prompts.push_back(random_ids(random, length));
  }
  for (const Setting& setting : settings()) {
    CAPTURE(name_of(setting.isa));
    CAPTURE(name_of(setting.act));
    CAPTURE(kv_dtype_name(setting.kv_dtype));
    Model model(folder, setting);
    std::vector<Outcome> alone;
    for (const Ids& prompt : prompts) alone.push_back(model.run({prompt}, true)[0]);
    for (const size_t company : {2, 3, 7, 9}) {
      CAPTURE(company);
      const std::vector<Ids> some(prompts.begin(),
                                  prompts.begin() + static_cast<std::ptrdiff_t>(company));
      const std::vector<Outcome> together = model.run(some, true);
      for (size_t i = 0; i < company; ++i) CHECK(together[i] == alone[i]);
    }
    Setting other = setting;
    other.threads = 3;
    other.prefill_chunk = 48;
    other.block_size = 3 * kKvBlockSize;
    const std::vector<Outcome> together = Model(folder, other).run(prompts, true);
    for (size_t i = 0; i < prompts.size(); ++i) CHECK(together[i] == alone[i]);

    Setting narrow = setting;  // some must give their blocks up and be computed again
    narrow.cache_tokens = 160;
    Model narrow_model(folder, narrow);
    const std::vector<Outcome> in_turns = narrow_model.run(prompts, true);
    for (size_t i = 0; i < prompts.size(); ++i) CHECK(in_turns[i] == alone[i]);
    CHECK(narrow_model.num_preemptions() > 0);
  }
}

TEST_CASE("random schedules: every request gets the ids that it gets alone") {
  const std::filesystem::path folder = random_model("random-schedules");
  std::mt19937 random(9);
  std::vector<Ids> prompts;
  for (int i = 0; i < 24; ++i) {
    Ids prompt = random_ids(random, 1 + random() % 60);
    if (i % 3 == 1) {  // begins as one before it does
      prompt.insert(prompt.begin(), prompts.back().begin(), prompts.back().end());
      prompt.resize(std::min<size_t>(prompt.size(), 80));
    }
    prompts.push_back(prompt);
  }
  for (const Setting& setting : settings()) {
    CAPTURE(name_of(setting.isa));
    CAPTURE(kv_dtype_name(setting.kv_dtype));
    Model model(folder, setting);
    const std::vector<Outcome> alone = model.run_alone(prompts);
    for (int round = 0; round < 8; ++round) {
      CAPTURE(round);
      const std::vector<Outcome> mixed = model.run_random(prompts, random);
      for (size_t i = 0; i < prompts.size(); ++i) CHECK(mixed[i].ids == alone[i].ids);
    }
    CHECK(model.num_preemptions() > 0);
    CHECK(model.num_accepted() > 0);
  }
}

TEST_CASE("E10: a prompt in chunks of any size gives the bits of one chunk") {
  const std::filesystem::path folder = random_model("chunk-invariance");
  std::mt19937 random(7);
  const Ids prompt = random_ids(random, 100);
  for (Setting setting : settings()) {
    CAPTURE(name_of(setting.isa));
    CAPTURE(kv_dtype_name(setting.kv_dtype));
    setting.prefill_chunk = 100;
    const Outcome whole = Model(folder, setting).run({prompt}, true)[0];
    for (const int64_t chunk : {1, 7, 16, 99}) {
      CAPTURE(chunk);
      setting.prefill_chunk = chunk;
      CHECK(Model(folder, setting).run({prompt}, true)[0] == whole);
    }
  }
}

TEST_CASE("E5: a prompt that is cached whole computes its last token again") {
  const std::filesystem::path folder = random_model("full-hit");
  std::mt19937 random(8);
  Model model(folder, {choose_isa(), default_act(choose_isa()), DType::kBF16});
  for (const int64_t length : {16, 32, 33}) {
    CAPTURE(length);
    const Ids prompt = random_ids(random, length);
    const std::vector<Outcome> twice =
        model.run({prompt, prompt}, false, Model::Order::kOneAfterTheOther);
    CHECK(twice[0].ids == twice[1].ids);
    CHECK(twice[0].cached_tokens == 0);
    CHECK(twice[1].cached_tokens == (length - 1) / kKvBlockSize * kKvBlockSize);
  }
}

TEST_CASE("blocks from the prefix cache give the same answers as computing again") {
  const std::filesystem::path folder = random_model("prefix-invariance");
  std::mt19937 random(6);
  const Ids shared = random_ids(random, 48);
  std::vector<Ids> prompts = {shared};
  for (const int64_t length : {1, 9, 20}) {
    Ids prompt = shared;
    const Ids tail = random_ids(random, length);
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    prompts.push_back(prompt);
  }
  Model model(folder, {choose_isa(), default_act(choose_isa()), DType::kBF16});
  const std::vector<Outcome> shared_prefix =
      model.run(prompts, false, Model::Order::kOneAfterTheOther);
  for (size_t i = 0; i < prompts.size(); ++i) {
    CHECK(shared_prefix[i].cached_tokens == (i == 0 ? 0 : 48));
    CHECK(shared_prefix[i].ids == model.run({prompts[i]}, false)[0].ids);
  }
}

}  // namespace
}  // namespace llm
