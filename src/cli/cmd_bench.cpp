// llm bench: how fast this machine runs a model.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>

#include "backend/cpu/machine_speed.h"
#include "base/cpu_info.h"
#include "cli/bench_report.h"
#include "cli/commands.h"
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
  std::optional<int64_t> prompt_len, gen_len, batch, depth, reps, warmup;
  std::string format = "table";
};

BenchPlan plan_of(const BenchOptions& options) {
  BenchPlan plan;
  plan.prompt_len = options.prompt_len.value_or(plan.prompt_len);
  plan.gen_len = options.gen_len.value_or(plan.gen_len);
  plan.batch = options.batch.value_or(plan.batch);
  plan.depth = options.depth.value_or(plan.depth);
  plan.reps = options.reps.value_or(plan.reps);
  plan.warmup = options.warmup.value_or(plan.warmup);
  plan.seed = options.common.seed.value_or(0);
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
  const bool computes = options.common.device.device != Device::kShape;
  const int64_t context = plan_context(
      {.ctx = options.common.ctx,
       .prompt_tokens = plan.depth + plan.prompt_len,
       .max_tokens = plan.gen_len,
       .kv_bytes_per_token =
           plan.batch * kv_bytes_per_token(files.config, options.common.device.cache_dtype()),
       .available_bytes = computes ? available_memory() : kUnlimitedMemory},
      files.config, log);
  refuse_beyond(plan, context);
}

void show_progress(int64_t done, int64_t all) {
  if (!stderr_is_terminal()) return;
  if (done < all) {
    write_stderr(fmt::format("\rrepetition {}/{} ", done + 1, all));
  } else {
    write_stderr(fmt::format("\r{:30}\r", ""));
  }
}

ExitCode bench(const BenchOptions& options) {
  const Log log = options.common.log();
  const BenchPlan plan = plan_of(options);
  const ModelFiles files = open_model(options.common.model, options.common.device.device, log);
  check_context(options, plan, files, log);
  const DeviceChoice& device = options.common.device;
  LoadedModel model(files, options.common.model, device, plan.seed, plan.context(), log);
  const DType kv_dtype = device.cache_dtype();

  BenchReport report;
  report.model = files.name;
  report.cpu = cpu_model_name();
  report.threads = model.pool().num_threads();
  report.device = model.backend().name();
  report.isa = model.backend().isa();
  report.act = name_of(model.backend().act());
  report.kv_dtype = kv_dtype == DType::kF32 ? "f32" : "bf16";
  report.seed = plan.seed;
  report.weight_bytes = model.decoder().weights().bytes;
  report.plan = plan;
  report.computes = model.backend().computes();
  const bool quiet = options.common.quiet;
  report.result =
      run_bench(model, plan, kv_dtype, files.config.vocab_size, [quiet](int64_t done, int64_t all) {
        if (!quiet) show_progress(done, all);
      });
  // After the run, whose peak memory would otherwise include the measurement's.
  if (report.computes) {
    const MachineSpeed speed = measure_machine(model.pool(), choose_isa());
    report.limits = MachineLimits{speed.read_gbs, speed.f32_gflops, speed.bf16_gflops};
  }
  write_stdout(options.format == "json" ? bench_json(report) : bench_table(report));
  return ExitCode::kOk;
}

}  // namespace

Action add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  begin_section(app, "What to measure");
  add_integer(app, "--prompt-len", options->prompt_len, 1, kMaxTokens,
              "Prompt tokens (default: 512)");
  add_integer(app, "--gen-len", options->gen_len, 0, kMaxTokens, "Generated tokens (default: 128)");
  add_integer(app, "--batch", options->batch, 1, kMaxBatch, "Requests at once (default: 1)");
  add_integer(app, "--depth", options->depth, 0, kMaxTokens,
              "Tokens in the cache before the timed prompt (default: 0)");
  add_integer(app, "--reps", options->reps, 1, kMaxReps, "Timed repetitions (default: 5)");
  add_integer(app, "--warmup", options->warmup, 0, kMaxReps,
              "Repetitions before these, not timed (default: 1)");
  add_choice(
      app, "--format", {"table", "json"},
      [&o = *options](const std::string& word) { o.format = word; },
      "How to print the result (default: table)");
  add_common_options(app, options->common);
  app.footer("llm bench -m DIR --prompt-len 512 --gen-len 64");
  return [options] { return bench(*options); };
}

}  // namespace llm
