// llm run: one answer, streamed.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "cli/answer_loop.h"
#include "cli/commands.h"
#include "cli/counted.h"
#include "cli/line_editor.h"
#include "cli/logprobs_table.h"
#include "cli/output.h"
#include "cli/run_jsonl.h"
#include "cli/run_options.h"
#include "cli/run_prompt.h"
#include "cli/run_report.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/session.h"
#include "engine/trace.h"
#include "io/npy.h"

namespace llm {
namespace {

constexpr int64_t kTraceTokens = 2;  // the first comes out of the prefill, the second of a decode

bool computes(const RunOptions& options) { return options.common.device.device != Device::kShape; }

int64_t token_limit(const RunOptions& options) {
  if (options.trace_shapes && !computes(options)) {
    return std::min(kTraceTokens, options.answer.max_tokens.value_or(kTraceTokens));
  }
  return options.answer.max_tokens.value_or(options.trace_shapes ? kTraceTokens : kNoTokenLimit);
}

int64_t context_for(const RunOptions& options, const ModelFiles& files, const Prompt& prompt,
                    const Log& log) {
  const int64_t prompt_tokens = std::ssize(prompt.ids);
  Load load;
  if (options.logits_out)
    load.prompt_logits = std::min(prompt_tokens, SchedulerOptions{}.prefill_chunk);
  if (options.trace_shapes) load.prompt_logits = prompt_tokens;
  ContextRequest request = cache_request(options.common, files, options.engine, load);
  request.prompt_tokens = prompt_tokens;
  request.max_tokens = token_limit(options);
  return plan_context(request, files.config, log);
}

/// An answer that ends before it begins looks like a model with nothing to say.
void warn_if_full(const RunOptions& options, const Prompt& prompt, int64_t context, int64_t maximum,
                  const Log& log) {
  const int64_t length = static_cast<int64_t>(prompt.ids.size());
  if (token_limit(options) == 0 || length < context) return;
  log.warn("the prompt's {} fill the context of {}, so there is no answer: give {}",
           counted(length, "token"), context,
           context < maximum ? "a larger --ctx or a shorter prompt"
                             : "a shorter prompt (--ctx can't go beyond the model's maximum)");
}

void say_what_runs(const RunOptions& options, const Prompt& prompt, const SamplingParams& sampling,
                   const GenerationConfig& defaults, const Log& log) {
  log.info("{}, {}{}", prompt.chat ? "chat template" : "raw prompt",
           counted(static_cast<int64_t>(prompt.ids.size()), "prompt token"),
           sampling.temperature > 0 && !options.common.seed
               ? fmt::format(", seed {}", sampling.seed)
               : "");
  say_sampling(options.sampling, sampling, defaults, log);
  warn_greedy_thinking(options.answer.think, options.sampling, log);
}

/// Opened before there is any work to lose, so that a place that can't be written is refused.
std::shared_ptr<NpyWriter> open_logits(const std::string& path, int64_t rows, int64_t cols) {
  try {
    return std::make_shared<NpyWriter>(path, rows, cols);
  } catch (const Error& error) {
    refuse("--logits-out {}", error.what());
  }
}

/// What the prompt's logits are wanted for: a file, a trace (which only wants them computed), or
/// nothing.
std::function<void(int64_t, ConstTensor)> logits_consumer(const RunOptions& options,
                                                          int64_t prompt_tokens,
                                                          int64_t vocab_size) {
  if (options.logits_out) {
    const auto writer = open_logits(*options.logits_out, prompt_tokens, vocab_size);
    return [writer, prompt_tokens](int64_t first, ConstTensor logits) {
      writer->write({logits.as<float>(), static_cast<size_t>(logits.shape.num_elements())});
      if (first + logits.shape[0] == prompt_tokens) writer->close();
    };
  }
  if (options.trace_shapes) return [](int64_t, ConstTensor) {};
  return nullptr;
}

Request make_request(const RunOptions& options, const ModelFiles& files, const Prompt& prompt,
                     const SamplingParams& sampling) {
  Request request;
  request.prompt_ids = prompt.ids;
  request.sampling = sampling;
  if (!options.ignore_eos) request.stop_ids = prompt.stop_ids;
  request.max_tokens = token_limit(options);
  request.num_ids = files.num_ids();
  request.num_logprobs = options.logprobs;
  request.on_prompt_logits =
      logits_consumer(options, static_cast<int64_t>(prompt.ids.size()), files.config.vocab_size);
  return request;
}

void print_ids(const RunResult& result) {
  write_stderr(fmt::format("prompt ids: {}\nids: {}\n", fmt::join(result.prompt_ids, " "),
                           fmt::join(result.ids, " ")));
}

void print_logprobs(const std::vector<GeneratedLogprobs>& logprobs, const Tokenizer* tokenizer) {
  set_utf8_locale();  // for the widths of characters
  write_stderr(logprobs_table(logprobs, tokenizer));
}

EngineOptions engine_options(const RunOptions& options, int64_t context, int64_t prompt_tokens) {
  EngineOptions result{.scheduler = {.context = context, .max_num_seqs = 1},
                       .num_cache_tokens = context,
                       .kv_dtype = options.common.device.cache_dtype()};
  if (options.trace_shapes) {  // the whole prompt in one step
    SchedulerOptions& scheduler = result.scheduler;
    scheduler.prefill_chunk = std::max(scheduler.prefill_chunk, prompt_tokens);
    scheduler.max_num_batched_tokens = scheduler.prefill_chunk + 1;
  }
  return result;
}

ExitCode run(RunOptions& options) {
  check_run_options(options);
  const Log log = options.common.log();
  repair_texts(options.answer, log);
  if (options.jsonl && !computes(options)) {
    refuse("--device shape computes nothing: --jsonl needs a device that does");
  }
  if (options.jsonl) return run_jsonl(options, log);
  if (!computes(options) && (!options.trace_shapes || options.logits_out || options.logprobs)) {
    refuse(
        "--device shape computes nothing: use it with --trace-shapes, without --logits-out and "
        "--logprobs");
  }
  const ModelFiles files = open_model(options.common, log);
  const Prompt prompt = make_prompt(options, files, log);
  const uint64_t seed = options.common.seed ? *options.common.seed : random_seed();
  const SamplingParams sampling = resolve_sampling(options.sampling, files.generation, seed);
  const int64_t context = context_for(options, files, prompt, log);
  warn_if_full(options, prompt, context, files.config.max_position_embeddings, log);
  Request request = make_request(options, files, prompt, sampling);
  say_what_runs(options, prompt, sampling, files.generation, log);

  LoadedModel model(files, options.common.model, options.common.device,
                    options.common.seed.value_or(0), context, log);
  const auto prompt_tokens = static_cast<int64_t>(prompt.ids.size());
  const std::unique_ptr<Engine> engine = make_engine(
      model, files, engine_options(options, context, prompt_tokens), options.engine, log);
  const Tokenizer* tokenizer = files.tokenizer && computes(options) ? &*files.tokenizer : nullptr;
  if (!files.tokenizer) log.warn("the model has no tokenizer, so no text: see --print-ids, --json");
  AnswerStream answer(tokenizer, prompt.reasoning, options.answer.stops, prompt.tools_offered);
  const auto budget = limit_thought(request, options.answer.think_budget, tokenizer, answer);
  const auto sequence = engine->add(std::move(request));
  ShapeTrace trace;
  if (options.trace_shapes) model.backend().set_observer(&trace);

  AnswerPrinter printer({.content = !options.json, .thoughts = options.show_thinking});
  RunResult result = run_answer(*engine, sequence, answer, printer,
                                {.loop_guard = options.answer.loop_guard,
                                 .show_progress = !options.common.quiet,
                                 .budget = budget});
  result.first_tool_call = prompt.num_tool_calls + 1;
  say_ending(result, *sequence, engine->options().scheduler.context, log);
  result.decode_bytes = decode_bytes(model.decoder(), *sequence, engine->options().kv_dtype);
  if (options.json) {
    const RunInfo info = info_of(model.backend(), engine->options().kv_dtype, seed);
    write_stdout(run_json(result, info, options.print_ids));
  }
  if (options.print_ids) print_ids(result);
  if (result.logprobs && !options.json) print_logprobs(*result.logprobs, tokenizer);
  if (options.trace_shapes) write_stderr(trace.module_table() + "\n" + trace.stage_table());
  if (options.stats) write_stderr(run_stats(result));
  return ExitCode::kOk;
}

}  // namespace

Action add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  add_run_options(app, *options);
  return [options] { return run(*options); };
}

}  // namespace llm
