#include "tiny_model.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/speculative.h"

namespace llm {
namespace {

const ModelChoice kTiny{.model = "tiny", .config = {}, .random_weights = {}, .tokenizer = {}};
const Log kQuiet{Verbosity::kQuiet};

}  // namespace

TinyModel::TinyModel(Device device, bool invariant, const CudaTuning& tuning)
    : files_(open_model(kTiny, device, kQuiet)) {
  DeviceChoice choice;
  choice.device = device;
  choice.invariant = invariant;
  choice.tuning = tuning;
  choice.act = ActDType::kBF16;
  choice.threads = 2;
  settle_device(choice, files_, kQuiet);
  model_ = std::make_unique<LoadedModel>(files_, kTiny, choice, 0, kContext, kQuiet);
}

std::unique_ptr<Engine> TinyModel::make_engine(const EngineSetting& setting) {
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
    Decoder& draft = model_->load_draft("tiny-draft", files_, kContext, kQuiet);
    proposer = std::make_unique<DraftProposer>(draft, options.num_kv_blocks(), setting.kv_dtype);
  }
  return std::make_unique<Engine>(model_->decoder(), options, std::move(proposer));
}

Request TinyModel::request(const Ids& prompt, int64_t max_tokens,
                           const EngineSetting& setting) const {
  Request request;
  request.prompt_ids = prompt;
  request.sampling = setting.sampling;
  if (!setting.ignore_eos) request.stop_ids = files_.stop_ids;
  request.max_tokens = max_tokens;
  request.num_ids = files_.num_ids();
  if (setting.wait_for_ids) request.on_sampled = [](int32_t id) { return id; };
  return request;
}

std::vector<Answer> TinyModel::run(const std::vector<Ids>& prompts, int64_t max_tokens,
                                   const EngineSetting& setting) {
  const std::unique_ptr<Engine> engine = make_engine(setting);
  std::vector<std::shared_ptr<const Sequence>> sequences;
  for (const Ids& prompt : prompts) {
    Request wanted = request(prompt, max_tokens, setting);
    wanted.num_logprobs = 2;
    sequences.push_back(engine->add(std::move(wanted)));
  }
  while (engine->has_work()) engine->step();
  num_preemptions_ = engine->scheduler().num_preemptions();
  std::vector<Answer> answers;
  for (const auto& s : sequences) {
    answers.push_back({{s->output_ids().begin(), s->output_ids().end()},
                       {s->logprobs().begin(), s->logprobs().end()},
                       s->num_prefix_cached_tokens(),
                       s->num_accepted()});
  }
  return answers;
}

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

}  // namespace llm
