// The engine on the CUDA backend: the CPU's tokens, and the same bits in any company.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cuda_test.h"
#include "engine/engine.h"
#include "engine/session.h"
#include "engine/speculative.h"

namespace llm {
namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kContext = 1536;
// Logits this close may change places: 1 % of the range of this model's, which is 32.
constexpr double kLogitThreshold = 0.32;

struct EngineSetting {
  int64_t max_num_seqs = 4;
  int64_t prefill_chunk = 32;
  int64_t cache_tokens = 4 * kContext;
  bool prefix_cache = false;
  DType kv_dtype = DType::kBF16;
  bool draft = false;
  bool ignore_eos = false;
};

struct Answer {
  Ids ids;
  std::vector<GeneratedLogprobs> logprobs;  // two most probable of each
  int64_t cached_tokens = 0;
  int64_t accepted = 0;

  bool same_bits(const Answer& other) const {
    if (ids != other.ids || logprobs.size() != other.logprobs.size()) return false;
    for (size_t i = 0; i < logprobs.size(); ++i) {
      if (logprobs[i].chosen.logprob != other.logprobs[i].chosen.logprob) return false;
    }
    return true;
  }
};

/// The built-in model on one device.
class TinyModel {
 public:
  explicit TinyModel(Device device, bool invariant = false)
      : files_(open_model(kChoice, device, quiet_)) {
    DeviceChoice choice;
    choice.device = device;
    choice.invariant = invariant;
    choice.act = ActDType::kBF16;
    choice.threads = 2;
    settle_device(choice, files_, quiet_);
    model_ = std::make_unique<LoadedModel>(files_, kChoice, choice, 0, kContext, quiet_);
  }

  std::vector<Answer> run(const std::vector<Ids>& prompts, int64_t max_tokens,
                          const EngineSetting& setting) {
    SchedulerOptions scheduler{.context = kContext,
                               .max_num_seqs = setting.max_num_seqs,
                               .prefill_chunk = setting.prefill_chunk,
                               .prefix_cache = setting.prefix_cache,
                               .max_proposals = setting.draft ? 4 : 0};
    scheduler.max_num_batched_tokens = scheduler.most_decode_rows() + 3 * scheduler.prefill_chunk;
    const EngineOptions options{.scheduler = scheduler,
                                .num_cache_tokens = setting.cache_tokens,
                                .kv_dtype = setting.kv_dtype};
    std::unique_ptr<Proposer> proposer;
    if (setting.draft) {
      Decoder& draft = model_->load_draft("tiny-draft", files_, kContext, quiet_);
      proposer = std::make_unique<DraftProposer>(draft, options.num_kv_blocks(), setting.kv_dtype);
    }
    Engine engine(model_->decoder(), options, std::move(proposer));
    std::vector<std::shared_ptr<const Sequence>> sequences;
    for (const Ids& prompt : prompts) {
      Request request;
      request.prompt_ids = prompt;
      if (!setting.ignore_eos) request.stop_ids = files_.stop_ids;
      request.max_tokens = max_tokens;
      request.num_ids = files_.num_ids();
      request.num_logprobs = 2;
      sequences.push_back(engine.add(std::move(request)));
    }
    while (engine.has_work()) engine.step();
    num_preemptions_ = engine.scheduler().num_preemptions();
    std::vector<Answer> answers;
    for (const auto& s : sequences) {
      answers.push_back({{s->output_ids().begin(), s->output_ids().end()},
                         {s->logprobs().begin(), s->logprobs().end()},
                         s->num_prefix_cached_tokens(),
                         s->num_accepted()});
    }
    return answers;
  }

  int64_t num_preemptions() const { return num_preemptions_; }

 private:
  inline static const ModelChoice kChoice{
      .model = "tiny", .config = {}, .random_weights = {}, .tokenizer = {}};

  Log quiet_{Verbosity::kQuiet};
  ModelFiles files_;
  std::unique_ptr<LoadedModel> model_;
  int64_t num_preemptions_ = 0;
};

/// Prompts of the goldens of the built-in model, every `step`-th.
std::vector<Ids> tiny_prompts(size_t step) {
  std::vector<Ids> prompts;
  std::ifstream lines("tests/goldens/tiny_answers.jsonl");
  REQUIRE(lines);
  std::string line;
  for (size_t number = 0; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    if (row["model"] != "tiny" || number++ % step != 0) continue;
    prompts.push_back(row["prompt_ids"].get<Ids>());
  }
  return prompts;
}

/// How much better the CPU finds its choice than the second best.
double gap(const GeneratedLogprobs& logprobs) {
  return logprobs.top[0].logprob - logprobs.top[1].logprob;
}

/// Every answer is the CPU's up to a token that the CPU nearly didn't choose. Says how many differ.
void check_tokens(const std::string& what, const std::vector<Answer>& gpu,
                  const std::vector<Answer>& cpu) {
  REQUIRE(gpu.size() == cpu.size());
  size_t differ = 0;
  size_t tokens = 0;
  for (size_t i = 0; i < gpu.size(); ++i) {
    tokens += cpu[i].ids.size();
    if (gpu[i].ids == cpu[i].ids) continue;
    ++differ;
    size_t at = 0;
    while (at < std::min(gpu[i].ids.size(), cpu[i].ids.size()) && gpu[i].ids[at] == cpu[i].ids[at])
      ++at;
    REQUIRE(at < cpu[i].ids.size());
    CAPTURE(i);
    CAPTURE(at);
    CHECK(gap(cpu[i].logprobs[at]) < kLogitThreshold);
  }
  MESSAGE(what, ": ", gpu.size(), " answers, ", tokens, " tokens, ", differ, " differ");
}

void check_same_bits(const std::vector<Answer>& a, const std::vector<Answer>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(a[i].same_bits(b[i]));
  }
}

}  // namespace

TEST_CASE("cuda: the built-in model answers as on the CPU, in mixed batches") {
  TinyModel cpu(Device::kCpu);
  TinyModel gpu(Device::kCuda);
  for (const DType kv_dtype : {DType::kBF16, DType::kF8E4M3, DType::kI8}) {
    const std::vector<Ids> prompts = tiny_prompts(kv_dtype == DType::kBF16 ? 4 : 12);
    const EngineSetting setting{.kv_dtype = kv_dtype};
    check_tokens(fmt::format("kv {}", kv_dtype_name(kv_dtype)), gpu.run(prompts, 24, setting),
                 cpu.run(prompts, 24, setting));
  }
}

TEST_CASE("cuda: the order of threads, of copies and of work on streams changes nothing") {
  std::vector<Ids> prompts = tiny_prompts(16);
  prompts.resize(2);
  std::vector<Answer> first;
  for_each_schedule([&] {
    TinyModel gpu(Device::kCuda);
    const std::vector<Answer> answers = gpu.run(prompts, 4, {});
    if (first.empty()) first = answers;
    check_same_bits(answers, first);
  });
}

TEST_CASE("cuda: decoding rows give the same bits in any company, with and without guesses") {
  const std::vector<Ids> prompts = tiny_prompts(12);
  // Invariant, since cuBLASLt may compute the prompts of a batch in another way than one alone.
  TinyModel gpu(Device::kCuda, true);
  const std::vector<Answer> alone = gpu.run(prompts, 16, {.max_num_seqs = 1});
  check_same_bits(gpu.run(prompts, 16, {.max_num_seqs = 16}), alone);
  const std::vector<Answer> guessed = gpu.run(prompts, 16, {.max_num_seqs = 3, .draft = true});
  check_same_bits(guessed, alone);
  int64_t accepted = 0;
  for (const Answer& answer : guessed) accepted += answer.accepted;
  CHECK(accepted > 0);
}

TEST_CASE("cuda: --invariant gives the same bits however prompts are cut, shared or recomputed") {
  std::vector<Ids> prompts = tiny_prompts(16);
  // A long one, and another that begins like it.
  Ids text;
  for (const Ids& prompt : prompts) text.insert(text.end(), prompt.begin(), prompt.end());
  text.resize(110);
  prompts.resize(3);
  prompts.push_back(text);
  text.insert(text.end(), prompts[0].begin(), prompts[0].end());
  prompts.push_back(text);
  TinyModel gpu(Device::kCuda, true);
  const std::vector<Answer> plain = gpu.run(prompts, 12, {.max_num_seqs = 1, .prefill_chunk = 512});
  check_same_bits(gpu.run(prompts, 12, {.max_num_seqs = 4, .prefill_chunk = 16}), plain);
  const std::vector<Answer> shared = gpu.run(
      prompts, 12, {.max_num_seqs = 1, .prefill_chunk = 48, .prefix_cache = true, .draft = true});
  check_same_bits(shared, plain);
  CHECK(shared.back().cached_tokens > 0);

  prompts.resize(3);
  const std::vector<Answer> longer = gpu.run(prompts, 24, {.max_num_seqs = 1, .ignore_eos = true});
  check_same_bits(gpu.run(prompts, 24, {.cache_tokens = 80, .ignore_eos = true}), longer);
  CHECK(gpu.num_preemptions() > 0);
}

}  // namespace llm
