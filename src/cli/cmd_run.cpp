// llm run: one answer, streamed.
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "cli/commands.h"
#include "cli/counted.h"
#include "cli/output.h"
#include "cli/run_options.h"
#include "cli/run_prompt.h"
#include "cli/run_report.h"
#include "engine/answer_stream.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/session.h"
#include "engine/trace.h"
#include "io/npy.h"

namespace llm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kTraceTokens = 2;  // the first comes out of the prefill, the second of a decode

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// 53 bits, which every JSON reader keeps.
uint64_t random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) >> 11;
}

bool computes(const RunOptions& options) { return options.common.device.device != Device::kShape; }

int64_t token_limit(const RunOptions& options) {
  if (options.trace_shapes && !computes(options)) {
    return std::min(kTraceTokens, options.max_tokens.value_or(kTraceTokens));
  }
  return options.max_tokens.value_or(options.trace_shapes ? kTraceTokens : kNoTokenLimit);
}

int64_t context_for(const RunOptions& options, const ModelFiles& files, const Prompt& prompt,
                    const Log& log) {
  return plan_context(
      {.ctx = options.common.ctx,
       .prompt_tokens = static_cast<int64_t>(prompt.ids.size()),
       .max_tokens = token_limit(options),
       .kv_bytes_per_token = kv_bytes_per_token(files.config, options.common.device.cache_dtype()),
       .available_bytes = computes(options) ? available_memory() : kUnlimitedMemory},
      files.config, log);
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
  const auto origin = [&](bool flag, bool file) {
    return flag ? "flag" : file ? "generation_config.json" : "default";
  };
  const SamplingOptions& flags = options.sampling;
  log.detail("temperature {} ({}), top-k {} ({}), top-p {} ({}), min-p {} ({})",
             sampling.temperature,
             origin(flags.temperature || flags.greedy, defaults.temperature.has_value()),
             sampling.top_k, origin(flags.top_k.has_value(), defaults.top_k.has_value()),
             sampling.top_p, origin(flags.top_p.has_value(), defaults.top_p.has_value()),
             sampling.min_p, origin(flags.min_p.has_value(), defaults.min_p.has_value()));
  const bool asked_greedy = flags.greedy || (flags.temperature && *flags.temperature == 0);
  if (options.think == Think::kOn && asked_greedy) {
    log.warn(
        "greedy decoding with thinking on can repeat itself without end; leave out --greedy "
        "or --temp 0 for the model's own settings");
  }
}

/// Sends text on as it comes, and remembers what a terminal still needs.
class Printer {
 public:
  explicit Printer(const RunOptions& options) : options_(&options) {}

  void print(const AnswerPiece& piece) {
    if (options_->show_thinking && !piece.reasoning.empty()) {
      write_stderr(piece.reasoning);
      thoughts_open_ = !piece.reasoning.ends_with('\n');
    }
    if (options_->json || piece.content.empty()) return;
    end_thoughts();
    write_stdout(piece.content);
    content_open_ = !piece.content.ends_with('\n');
  }

  void end() {
    end_thoughts();
    if (content_open_ && stdout_is_terminal()) write_stdout("\n");
  }

 private:
  void end_thoughts() {
    if (thoughts_open_) write_stderr("\n");
    thoughts_open_ = false;
  }

  const RunOptions* options_;
  bool thoughts_open_ = false;
  bool content_open_ = false;
};

/// A long prefill's progress, on a terminal only.
class PrefillProgress {
 public:
  explicit PrefillProgress(bool quiet) : on_(!quiet && stderr_is_terminal()) {}

  void show(const Sequence& sequence) {
    if (!on_ || !sequence.in_prefill()) return;
    write_stderr(
        fmt::format("\rprompt {}/{} ", sequence.num_cached_tokens(), sequence.prompt_length()));
    shown_ = true;
  }
  void clear() {
    if (shown_) write_stderr(fmt::format("\r{:40}\r", ""));
    shown_ = false;
  }

 private:
  bool on_;
  bool shown_ = false;
};

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
  if (!options.ignore_eos) request.stop_ids = files.stop_ids;
  request.max_tokens = token_limit(options);
  request.num_ids = files.num_ids();
  request.on_prompt_logits =
      logits_consumer(options, static_cast<int64_t>(prompt.ids.size()), files.config.vocab_size);
  return request;
}

/// Bytes that a decode step reads: every matrix once, and the cache at the answer's mean length.
double decode_bytes(const Decoder& decoder, const Sequence& sequence, DType kv_dtype) {
  const DecoderWeights& weights = decoder.weights();
  int64_t bytes = weights.lm_head.weight_bytes();
  for (const DecoderLayer& layer : weights.layers) {
    bytes += layer.qkv_proj.weight_bytes() + layer.o_proj.weight_bytes() +
             layer.gate_up_proj.weight_bytes() + layer.down_proj.weight_bytes();
  }
  const double mean_length = static_cast<double>(sequence.prompt_length()) +
                             static_cast<double>(sequence.output_length()) / 2;
  return static_cast<double>(bytes) +
         mean_length * static_cast<double>(kv_bytes_per_token(decoder.config(), kv_dtype));
}

/// Runs the sequence to its end, printing as text becomes certain.
RunResult generate(Engine& engine, const std::shared_ptr<const Sequence>& sequence,
                   AnswerStream& answer, const RunOptions& options) {
  Printer printer(options);
  PrefillProgress progress(options.common.quiet);
  RunResult result;
  const Clock::time_point start = Clock::now();
  Clock::time_point first = start, last = start;
  while (!sequence->finished()) {
    const bool in_prefill = sequence->in_prefill();
    const bool advanced = !engine.step().empty();
    progress.show(*sequence);
    if (in_prefill && !sequence->in_prefill()) {
      progress.clear();
      first = Clock::now();
      result.prefill = seconds_between(start, first);
    }
    if (!advanced) continue;
    last = Clock::now();
    if (sequence->finish_reason() != FinishReason::kStop) {  // a stop id has no text
      printer.print(answer.push(sequence->ids().back()));
    }
    if (answer.stopped()) engine.finish(*sequence, FinishReason::kStop);
  }
  printer.print(answer.finish());
  printer.end();
  if (sequence->output_length() > 0) result.ttft = result.prefill;
  if (sequence->output_length() > 1) {
    result.tpot = seconds_between(first, last) / static_cast<double>(sequence->output_length() - 1);
  }
  result.finish_reason = answer.stopped() ? FinishReason::kStop : sequence->finish_reason();
  return result;
}

void fill_result(RunResult& result, const AnswerStream& answer, const Sequence& sequence) {
  result.content = answer.content();
  result.reasoning = answer.reasoning();
  result.reasoning_tokens = answer.reasoning_tokens();
  result.cached_tokens = sequence.num_prefix_cached_tokens();
  result.prompt_ids.assign(sequence.prompt_ids().begin(), sequence.prompt_ids().end());
  result.ids.assign(sequence.output_ids().begin(), sequence.output_ids().end());
}

void print_ids(const RunResult& result) {
  write_stderr(fmt::format("prompt ids: {}\nids: {}\n", fmt::join(result.prompt_ids, " "),
                           fmt::join(result.ids, " ")));
}

RunInfo info_of(const Backend& backend, DType kv_dtype, uint64_t seed) {
  return {std::string(backend.name()), backend.isa(), std::string(name_of(backend.act())),
          kv_dtype == DType::kF32 ? "f32" : "bf16", seed};
}

EngineOptions engine_options(const RunOptions& options, int64_t context, int64_t prompt_tokens) {
  EngineOptions result{.context = context,
                       .num_cache_tokens = context,
                       .kv_dtype = options.common.device.cache_dtype(),
                       .max_num_seqs = 1};
  if (options.trace_shapes) {  // the whole prompt in one step
    result.prefill_chunk = std::max(result.prefill_chunk, prompt_tokens);
    result.max_num_batched_tokens = result.prefill_chunk + 1;
  }
  return result;
}

ExitCode run(RunOptions& options) {
  check_run_options(options);
  const Log log = options.common.log();
  repair_texts(options, log);
  if (!computes(options) && (!options.trace_shapes || options.logits_out)) {
    refuse("--device shape computes nothing: use it with --trace-shapes, without --logits-out");
  }
  const ModelFiles files = open_model(options.common.model, options.common.device.device, log);
  const Prompt prompt = make_prompt(options, files, log);
  const uint64_t seed = options.common.seed ? *options.common.seed : random_seed();
  const SamplingParams sampling = resolve_sampling(options.sampling, files.generation, seed);
  const int64_t context = context_for(options, files, prompt, log);
  warn_if_full(options, prompt, context, files.config.max_position_embeddings, log);
  Request request = make_request(options, files, prompt, sampling);
  say_what_runs(options, prompt, sampling, files.generation, log);

  LoadedModel model(files, options.common.model, options.common.device,
                    options.common.seed.value_or(0), context, log);
  Engine engine(model.decoder(),
                engine_options(options, context, static_cast<int64_t>(prompt.ids.size())));
  const auto sequence = engine.add(std::move(request));
  const Tokenizer* tokenizer = files.tokenizer && computes(options) ? &*files.tokenizer : nullptr;
  if (!files.tokenizer) log.warn("the model has no tokenizer, so no text: see --print-ids, --json");
  AnswerStream answer(tokenizer, prompt.reasoning, options.stops);
  ShapeTrace trace;
  if (options.trace_shapes) model.backend().set_observer(&trace);

  RunResult result = generate(engine, sequence, answer, options);
  fill_result(result, answer, *sequence);
  const int64_t generated = sequence->output_length();
  if (result.finish_reason == FinishReason::kLength && sequence->length() >= context &&
      generated > 0 && generated < token_limit(options)) {
    log.warn("the context of {} tokens is full: the answer ends here (see --ctx)", context);
  }
  result.decode_bytes = decode_bytes(model.decoder(), *sequence, engine.options().kv_dtype);
  if (options.json) {
    const RunInfo info = info_of(model.backend(), engine.options().kv_dtype, seed);
    write_stdout(run_json(result, info, options.print_ids));
  }
  if (options.print_ids) print_ids(result);
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
