// llm bench: how fast this machine runs a model, or how fast a GPU would.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/machine_speed.h"
#include "base/cpu_info.h"
#include "base/progress_line.h"
#include "base/size_text.h"
#include "cli/bench_estimate.h"
#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/engine_options.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/bench.h"
#include "engine/memory.h"
#include "engine/session.h"

namespace llm {
namespace {

constexpr int64_t kMaxTokens = 1 << 24;
constexpr int64_t kMaxBatch = 4096;
constexpr int64_t kMaxReps = 100000;

struct BenchOptions {
  CommonOptions common;
  std::optional<int64_t> prompt_len, gen_len, depth, reps, warmup;
  std::vector<int64_t> batches = {1};
  bool prefix_cache = false;
  EngineFlags engine;
  EstimateFlags estimate;
  std::string format = "table";
};

/// "a,b": empty parts too.
std::vector<std::string> comma_parts(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// "1,64"
std::vector<int64_t> parse_batches(const std::string& text) {
  std::vector<int64_t> batches;
  for (const std::string& part : comma_parts(text)) {
    const std::optional<int64_t> batch = parse_integer(part);
    if (!batch || *batch < 1 || *batch > kMaxBatch) {
      refuse("--batch \"{}\": expected whole numbers from 1 to {}, such as 1,64", text, kMaxBatch);
    }
    batches.push_back(*batch);
  }
  return batches;
}

/// "no-graphs,prefetch"
CudaTuning parse_tuning(const std::string& text) {
  CudaTuning tuning;
  for (const std::string& word : comma_parts(text)) {
    if (word == "no-graphs") {
      tuning.graphs = false;
    } else if (word == "no-overlap") {
      tuning.overlap = false;
    } else if (word == "prefetch") {
      tuning.prefetch = true;
    } else {
      refuse("--gpu-tuning \"{}\": expected some of no-graphs, no-overlap, prefetch", text);
    }
  }
  return tuning;
}

BenchPlan plan_of(const BenchOptions& options, int64_t batch) {
  BenchPlan plan;
  plan.prompt_len = options.prompt_len.value_or(plan.prompt_len);
  plan.gen_len = options.gen_len.value_or(plan.gen_len);
  plan.batch = batch;
  plan.depth = options.depth.value_or(plan.depth);
  plan.reps = options.reps.value_or(plan.reps);
  plan.warmup = options.warmup.value_or(plan.warmup);
  plan.seed = options.common.seed.value_or(0);
  plan.shared_depth = options.prefix_cache;
  return plan;
}

void refuse_beyond(const BenchPlan& plan, int64_t context) {
  if (plan.context() <= context) return;
  refuse(
      "depth {} + prompt {} + generated {} are {} tokens, but the context holds {}: lower one of "
      "--depth, --prompt-len, --gen-len",
      plan.depth, plan.prompt_len, plan.gen_len, plan.context(), context);
}

/// Refuses a run that the model or the memory doesn't hold.
void check_context(const BenchOptions& options, const BenchPlan& plan, const ModelFiles& files,
                   const Log& log) {
  const int64_t maximum = files.config.max_position_embeddings;
  const int64_t most = std::min(options.common.ctx.value_or(maximum), maximum);
  refuse_beyond(plan, most);
  ContextRequest request =
      cache_request(options.common, files, options.engine, {.num_seqs = plan.batch});
  request.prompt_tokens = plan.depth + plan.prompt_len;
  request.max_tokens = plan.gen_len;
  if (const auto room = options.engine.cache_tokens()) {
    if (*room < plan.context()) {
      refuse("--kv-blocks {}: room for {} tokens, but a request has {}", *options.engine.kv_blocks,
             *room, plan.context());
    }
  } else {
    const int64_t tokens = plan.batch * plan.context();
    if (plan.batch > 1 && tokens > request.available_bytes / request.kv_bytes_per_token) {
      refuse(
          "--batch {}: the keys and values of {} tokens each need {}, but {} are available: lower "
          "it or the tokens, or give --kv-blocks",
          plan.batch, plan.context(), size_text(tokens * request.kv_bytes_per_token),
          size_text(request.available_bytes));
    }
  }
  refuse_beyond(plan, plan_context(request, files.config, log));
}

EngineOptions engine_options(const BenchOptions& options, const BenchPlan& plan) {
  const int64_t block = options.engine.tokens_per_block();
  const int64_t blocks = plan.batch * ((plan.context() + block - 1) / block);
  return {.scheduler = {.context = plan.context(),
                        .max_num_seqs = options.engine.max_num_seqs.value_or(plan.batch),
                        .prefix_cache = options.prefix_cache},
          .num_cache_tokens = blocks * block,
          .kv_dtype = options.common.device.cache_dtype()};
}

BenchReport run_one(const BenchOptions& options, const BenchPlan& plan, const ModelFiles& files,
                    LoadedModel& model, const Log& log) {
  const auto engine = make_engine(model, files, engine_options(options, plan), options.engine, log);
  BenchReport report;
  report.model = files.name;
  report.cpu = cpu_model_name();
  report.threads = model.pool().num_threads();
  report.info = info_of(model.backend(), engine->options().kv_dtype, plan.seed);
  report.weight_bytes = model.decoder().weights().bytes;
  report.plan = plan;
  report.computes = model.backend().computes();
  report.draft = options.engine.draft.value_or("");
  report.has_draft_stages = !report.draft.empty() && report.draft != "ngram";
  ProgressLine progress(!options.common.quiet);
  report.result = run_bench(*engine, model.backend(), plan, files.config.vocab_size,
                            [&progress](int64_t done, int64_t all) {
                              if (done < all) {
                                progress.show(fmt::format("repetition {}/{}", done + 1, all));
                              } else {
                                progress.clear();
                              }
                            });
  return report;
}

ExitCode bench(BenchOptions& options) {
  if (options.estimate.on) {
    write_stdout(run_estimate(options.estimate, options.common, options.batches, options.format));
    return ExitCode::kOk;
  }
  check_engine_options(options.engine);
  if (options.prefix_cache && options.depth.value_or(0) == 0) {
    refuse("--prefix-cache goes with --depth N: the tokens that all prompts begin with");
  }
  refuse_together(options.prefix_cache, "--prefix-cache", options.engine.no_prefix_cache,
                  "--no-prefix-cache");
  const Log log = options.common.log();
  const ModelFiles files = open_model(options.common, log);
  std::vector<BenchPlan> plans;
  for (const int64_t batch : options.batches) {
    plans.push_back(plan_of(options, batch));
    check_context(options, plans.back(), files, log);
  }
  LoadedModel model(files, options.common.model, options.common.device, plans.front().seed,
                    plans.front().context(), log);
  std::vector<BenchReport> reports;
  for (const BenchPlan& plan : plans) reports.push_back(run_one(options, plan, files, model, log));
  // After the runs, whose peak memory would otherwise include the measurement's.
  if (options.common.device.device == Device::kCpu) {
    const MachineSpeed speed = measure_machine(model.pool(), choose_isa(), available_memory());
    for (BenchReport& report : reports) {
      report.limits = MachineLimits{speed.read_gbs, speed.f32_gflops, speed.bf16_gflops};
    }
  }
  write_stdout(options.format == "json" ? bench_json(reports) : bench_table(reports));
  return ExitCode::kOk;
}

}  // namespace

Action add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  begin_section(app, "What to measure");
  add_integer(app, "--prompt-len", options->prompt_len, 1, kMaxTokens,
              "Prompt tokens (default: 512)");
  add_integer(app, "--gen-len", options->gen_len, 0, kMaxTokens, "Generated tokens (default: 128)");
  app.add_option_function<std::string>(
         "--batch", [&o = *options](const std::string& text) { o.batches = parse_batches(text); },
         "Requests at once; several numbers are measured one after the other (default: 1)")
      ->type_name("N,...");
  add_integer(app, "--depth", options->depth, 0, kMaxTokens,
              "Tokens in the cache before the timed prompt (default: 0)");
  add_integer(app, "--reps", options->reps, 1, kMaxReps, "Timed repetitions (default: 5)");
  add_integer(app, "--warmup", options->warmup, 0, kMaxReps,
              "Repetitions before these, not timed (default: 1)");
  app.add_flag("--prefix-cache", options->prefix_cache,
               "All prompts begin with the same --depth tokens, which are looked up when a request "
               "arrives; otherwise they are computed before its clock starts");
  app.add_option_function<std::string>(
         "--gpu-tuning",
         [&o = *options](const std::string& text) { o.common.device.tuning = parse_tuning(text); },
         "How a GPU's decode steps differ from usual: no-graphs (each launch on its own), "
         "no-overlap (each after the end of the one before), prefetch (weights into L2 ahead of "
         "their use); results stay the same")
      ->type_name("WORD,...");
  add_choice(
      app, "--format", {"table", "json"},
      [&o = *options](const std::string& word) { o.format = word; },
      "How to print the result (default: table)");
  add_estimate_options(app, options->estimate);
  add_engine_options(app, options->engine);
  add_common_options(app, options->common);
  exclude_from_estimate(app);
  app.footer(
      "llm bench -m DIR --prompt-len 512 --gen-len 64\n"
      "llm bench --estimate --config qwen3-8b --gpu h200 --batch 1,64");
  return [options] { return bench(*options); };
}

}  // namespace llm
