// llm eval: perplexity of a model on a text, and its distance from a baseline.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/progress_line.h"
#include "cli/chat_prompt.h"
#include "cli/commands.h"
#include "cli/counted.h"
#include "cli/engine_options.h"
#include "cli/eval_report.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/prompt_input.h"
#include "engine/evaluation.h"
#include "engine/memory.h"

namespace llm {
namespace {

constexpr int64_t kDefaultCtx = 2048;
constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();

struct EvalOptions {
  CommonOptions common;
  std::optional<std::string> text;  // file, or "-"
  std::optional<int64_t> stride;
  std::optional<std::string> baseline;  // model
  std::optional<int64_t> max_num_seqs;
  bool json = false;
};

void check_options(const EvalOptions& o) {
  if (!o.text) refuse("no text: llm eval --text FILE (`-`: stdin)");
  if (o.common.device.device == Device::kShape) {
    refuse("--device shape computes nothing, so there is nothing to evaluate");
  }
  if (o.common.ctx && *o.common.ctx < 2) {
    refuse("--ctx {}: a window has 2 tokens or more, so that one is predicted", *o.common.ctx);
  }
  if (o.common.ctx && o.stride && *o.stride > *o.common.ctx) {
    refuse("--stride {} is more than --ctx {}: tokens between the windows would be left out",
           *o.stride, *o.common.ctx);
  }
}

/// As many bytes as there are, last newline included.
std::string read_text(const std::string& file, const Log& log) {
  PromptInput input{.raw = true, .drop_newline = false, .file_flag = "--text", .noun = "text"};
  if (file == "-") {
    input.prompt = file;
  } else {
    input.file = file;
    input.read_stdin = false;
  }
  std::string text = read_prompt(input, log);
  if (text.empty()) refuse("--text {}: is empty", file);
  return text;
}

std::vector<int32_t> text_ids(const EvalOptions& options, const ModelFiles& files, const Log& log) {
  const Tokenizer& tokenizer = tokenizer_of(files);
  Prompt prompt;
  prompt.ids = tokenizer.encode_prompt(read_text(*options.text, log));
  check_vocabulary(prompt, files);
  if (prompt.ids.size() < 2) {
    refuse("--text {}: has {}, but only a second one can be predicted", *options.text,
           counted(std::ssize(prompt.ids), "token"));
  }
  return std::move(prompt.ids);
}

void refuse_beyond_maximum(const EvalOptions& options, const ModelFiles& files) {
  const int64_t maximum = files.config.max_position_embeddings;
  if (options.common.ctx.value_or(0) <= maximum) return;
  refuse("--ctx {} is more than the maximum of {}, {}: give at most that", *options.common.ctx,
         files.name, maximum);
}

/// The baseline's small files, or nothing. What the flags say of precision isn't for it.
std::optional<ModelFiles> open_baseline(const EvalOptions& options, const ModelFiles& model,
                                        const Log& log) {
  if (!options.baseline) return std::nullopt;
  ModelFiles files =
      open_model({.model = *options.baseline, .config = {}, .random_weights = {}, .tokenizer = {}},
                 options.common.device.device, log);
  refuse_other_vocabulary("--baseline", model, files);
  refuse_beyond_maximum(options, files);
  return files;
}

/// Windows and cache: --ctx, or as much as is useful, both models hold, and fits the memory.
struct Windows {
  int64_t ctx = 0;
  int64_t stride = 0;
  EvalPlan plan;
};

Windows plan_windows(const EvalOptions& options, const ModelFiles& files,
                     const std::optional<ModelFiles>& baseline, int64_t num_tokens,
                     const Log& log) {
  int64_t kv_bytes = kv_bytes_per_token(files.config, options.common.device.cache_dtype());
  int64_t most = std::min(kDefaultCtx, files.config.max_position_embeddings);
  int64_t vocab_size = files.config.vocab_size;
  constexpr StepSize kStep = {.rows = 1024, .logits = 512};  // more than plan_evaluation() takes
  int64_t available = memory_for_cache(files, options.common.device, kStep);
  if (baseline) {
    kv_bytes += kv_bytes_per_token(baseline->config, DeviceChoice{}.cache_dtype());
    most = std::min(most, baseline->config.max_position_embeddings);
    vocab_size = std::max(vocab_size, baseline->config.vocab_size);
    available = std::min(available, memory_for_cache(*baseline, options.common.device, kStep));
  }
  Windows windows;
  windows.ctx = plan_context({.ctx = options.common.ctx,
                              .max_tokens = most,
                              .kv_bytes_per_token = kv_bytes,
                              .available_bytes = available},
                             files.config, log);
  if (windows.ctx < 2) refuse("a window of {} can't be evaluated", counted(windows.ctx, "token"));
  windows.stride = options.stride.value_or(std::max<int64_t>(1, windows.ctx / 2));
  if (windows.stride > windows.ctx) {
    refuse(
        "--stride {} is more than the window of {} tokens: give a smaller one, or a larger --ctx",
        windows.stride, windows.ctx);
  }
  windows.plan = plan_evaluation(eval_windows(num_tokens, windows.ctx, windows.stride), vocab_size,
                                 options.max_num_seqs);
  EvalPlan& plan = windows.plan;
  plan.num_cache_tokens =
      std::min(plan.num_cache_tokens,
               plan_cache_tokens(plan.context, plan.max_num_seqs, kv_bytes, available));
  return windows;
}

/// How far the evaluation is.
class Progress {
 public:
  Progress(bool wanted, int64_t all) : line_(wanted), all_(all) {}

  void show(int64_t done) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    if (done == 0 || seconds < shown_at_ + 0.5) return;
    shown_at_ = seconds;
    const double rate = static_cast<double>(done) / seconds;
    line_.show(fmt::format("{}/{} tokens, {:.0f} tok/s, {:.0f} s left", done, all_, rate,
                           static_cast<double>(all_ - done) / rate));
  }

 private:
  using Clock = std::chrono::steady_clock;

  ProgressLine line_;
  int64_t all_;
  double shown_at_ = 0;
  Clock::time_point start_ = Clock::now();
};

ExitCode eval(EvalOptions& options) {
  check_options(options);
  const Log log = options.common.log();
  const DeviceChoice& device = options.common.device;
  const ModelFiles files = open_model(options.common, log);
  refuse_beyond_maximum(options, files);
  const std::optional<ModelFiles> baseline_files = open_baseline(options, files, log);
  const std::vector<int32_t> ids = text_ids(options, files, log);
  const Windows windows = plan_windows(options, files, baseline_files, std::ssize(ids), log);
  const EvalPlan& plan = windows.plan;

  const uint64_t seed = options.common.seed.value_or(0);
  LoadedModel model(files, options.common.model, device, seed, plan.context, log);
  std::unique_ptr<LoadedModel> baseline_model;
  std::optional<EvalModel> baseline;
  int64_t num_ids = files.num_ids();
  if (baseline_files) {
    DeviceChoice plain;
    plain.device = device.device;
    plain.cuda_index = device.cuda_index;
    plain.gpu = device.gpu;
    plain.threads = device.threads;
    baseline_model =
        std::make_unique<LoadedModel>(*baseline_files, ModelChoice{}, plain, 0, plan.context, log);
    baseline = {baseline_model.get(), plain.cache_dtype()};
    num_ids = std::min(num_ids, baseline_files->num_ids());
  }

  EvalReport report{.model = files.name, .text_tokens = std::ssize(ids), .ctx = windows.ctx};
  {
    Progress progress(!options.common.quiet, plan.num_scored());
    const EvalModel own{&model, device.cache_dtype()};
    report.summary = summarize(
        evaluate(own, baseline, ids, num_ids, plan, [&](int64_t done) { progress.show(done); }));
  }
  if (baseline_files) report.baseline = baseline_files->name;
  report.stride = windows.stride;
  report.num_windows = std::ssize(plan.windows);
  report.info = info_of(model.backend(), device.cache_dtype(), seed);
  write_stdout(options.json ? eval_json(report) : eval_table(report));
  return ExitCode::kOk;
}

}  // namespace

Action add_eval(CLI::App& app) {
  auto options = std::make_shared<EvalOptions>();
  begin_section(app, "What to measure");
  refuse_empty(add_text(app, "--text", options->text, "FILE",
                        "The text, as it is: no chat template (`-`: stdin)"));
  add_integer(app, "--stride", options->stride, 1, kMaxTokens,
              "Tokens from one window's begin to the next; a window scores the tokens that none "
              "before it scored. Less means more context for each token, and more work (default: "
              "half of --ctx)");
  refuse_empty(add_text(app, "--baseline", options->baseline, "MODEL",
                        "Compare with this model of the same vocabulary, run at the default "
                        "precision: KL(baseline, model) and top-1 agreement"));
  add_integer(app, "--max-num-seqs", options->max_num_seqs, 1, kMaxNumSeqs,
              "Windows computed at the same time, which never changes the result (default: as "
              "many as fill a step)");
  app.add_flag("--json", options->json, "Print one JSON object instead of the table");
  add_common_options(app, options->common);
  app.get_option("--ctx")->description(
      "Tokens of a window, the context that a token has at most (default: 2048, or what the "
      "models and the memory hold)");
  app.footer(
      "llm eval -m DIR --text FILE --ctx 1024 --stride 512\n"
      "llm eval -m DIR --baseline DIR --kv-dtype f32 --text FILE\n\n"
      "Perplexity is exp of the mean NLL, -log(probability) in nats of each scored\n"
      "token. Its standard error is over the choice of the text, tokens taken as\n"
      "independent: perplexity times the NLL's standard deviation / sqrt(tokens).");
  return [options] { return eval(*options); };
}

}  // namespace llm
