#include "cli/answer_loop.h"

#include <chrono>

#include "cli/counted.h"
#include "cli/output.h"
#include "cli/terminal_text.h"
#include "engine/loop_guard.h"
#include "engine/session.h"

namespace llm {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// A long prefill's progress, on a terminal only.
class PrefillProgress {
 public:
  explicit PrefillProgress(bool show) : on_(show && stderr_is_terminal()) {}

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

/// Takes the ids that came since the last time, counted by num_taken. True where one of them ends
/// the answer by what it says; ids that a step gave after that one are not part of the answer.
bool take_ids(const Sequence& sequence, AnswerStream& answer, AnswerPrinter& printer,
              LoopGuard* guard, int64_t& num_taken) {
  while (num_taken < sequence.output_length()) {
    const int32_t id = sequence.output_ids()[static_cast<size_t>(num_taken++)];
    if (!sequence.stops_at(id)) printer.print(answer.push(id));  // a stop id has no text
    if (answer.stopped() || (guard != nullptr && guard->push(id))) return true;
  }
  return false;
}

void fill_result(RunResult& result, const AnswerStream& answer, const Sequence& sequence,
                 int64_t num_ids) {
  result.content = answer.content();
  result.reasoning = answer.reasoning();
  result.tool_calls = answer.tool_calls();
  result.tool_problems = answer.tool_problems();
  result.reasoning_tokens = answer.reasoning_tokens();
  result.cached_tokens = sequence.num_prefix_cached_tokens();
  result.prompt_ids.assign(sequence.prompt_ids().begin(), sequence.prompt_ids().end());
  result.num_proposed = sequence.num_proposed();
  result.num_accepted = sequence.num_accepted();
  const auto ids = sequence.output_ids().first(static_cast<size_t>(num_ids));
  result.ids.assign(ids.begin(), ids.end());
}

}  // namespace

AnswerPrinter::AnswerPrinter(const Options& options)
    : options_(options),
      content_on_terminal_(stdout_is_terminal()),
      thoughts_on_terminal_(stderr_is_terminal()) {
  options_.mark_thoughts &= thoughts_on_terminal_;
}

void AnswerPrinter::print(const AnswerPiece& piece) {
  if (options_.thoughts) print_thoughts(piece.reasoning);
  if (!options_.content) return;
  const std::string content = content_on_terminal_ ? strip_controls(piece.content) : piece.content;
  if (content.empty()) return;
  end_thoughts();
  write_stdout(content);
  has_content_ = true;
  content_ends_line_ = content.ends_with('\n');
}

void AnswerPrinter::print_thoughts(std::string_view text) {
  const std::string thoughts = thoughts_on_terminal_ ? strip_controls(text) : std::string(text);
  if (thoughts.empty()) return;
  const bool dim = options_.mark_thoughts && may_style_terminal();
  if (!in_thoughts_ && options_.mark_thoughts && !dim) write_stderr("[thoughts]\n");
  // Styled piece by piece, so that nothing stays dimmed however the process ends.
  write_stderr(dim ? fmt::format("{}{}{}", kDim, thoughts, kPlain) : thoughts);
  in_thoughts_ = true;
  thoughts_end_line_ = thoughts.ends_with('\n');
}

void AnswerPrinter::end_thoughts() {
  if (!in_thoughts_) return;
  in_thoughts_ = false;
  if (!thoughts_end_line_) write_stderr("\n");
  if (options_.mark_thoughts) write_stderr(may_style_terminal() ? "\n" : "[answer]\n");
}

void AnswerPrinter::end(const std::vector<ToolCall>& tool_calls) {
  end_thoughts();
  if (options_.content && !tool_calls.empty()) {
    std::string lines = has_content_ && !content_ends_line_ ? "\n" : "";
    for (const ToolCall& call : tool_calls) lines += tool_call_text(call) + "\n";
    write_stdout(content_on_terminal_ ? strip_controls(lines) : lines);
    content_ends_line_ = true;
  }
  const bool wants_end = options_.end_line || (content_on_terminal_ && has_content_);
  if (options_.content && wants_end && !content_ends_line_) write_stdout("\n");
}

std::shared_ptr<ThinkBudget> limit_thought(Request& request, const std::optional<int64_t>& limit,
                                           const Tokenizer* tokenizer, const AnswerStream& answer) {
  if (!limit || tokenizer == nullptr) return nullptr;
  auto budget = std::make_shared<ThinkBudget>(*tokenizer, answer, *limit);
  request.on_sampled = [budget](int32_t sampled) { return budget->next(sampled); };
  return budget;
}

RunResult run_answer(Engine& engine, const std::shared_ptr<const Sequence>& sequence,
                     AnswerStream& answer, AnswerPrinter& printer, const AnswerRun& run) {
  PrefillProgress progress(run.show_progress);
  LoopGuard guard;
  RunResult result;
  const Clock::time_point start = Clock::now();
  Clock::time_point first = start, last = start;
  int64_t num_taken = 0;  // ids of the answer that were looked at
  while (!sequence->finished()) {
    if (run.interrupted && run.interrupted()) {
      result.interrupted = true;
      engine.finish(*sequence, FinishReason::kStop);
      break;
    }
    const bool in_prefill = sequence->in_prefill();
    engine.step();
    progress.show(*sequence);
    if (in_prefill && !sequence->in_prefill()) {
      progress.clear();
      first = Clock::now();
      result.prefill = seconds_between(start, first);
    }
    if (num_taken < sequence->output_length()) last = Clock::now();
    if (take_ids(*sequence, answer, printer, run.loop_guard ? &guard : nullptr, num_taken)) {
      engine.finish(*sequence, answer.stopped() ? FinishReason::kStop : FinishReason::kLength);
      break;
    }
  }
  progress.clear();
  printer.print(answer.finish());
  printer.end(answer.tool_calls());
  if (num_taken > 0) result.ttft = result.prefill;
  if (num_taken > 1) {
    result.tpot = seconds_between(first, last) / static_cast<double>(num_taken - 1);
  }
  result.finish_reason = answer.stopped() ? FinishReason::kStop : sequence->finish_reason();
  if (result.finish_reason == FinishReason::kStop && !answer.tool_calls().empty()) {
    result.finish_reason = FinishReason::kToolCalls;
  }
  result.repetition = guard.found();
  if (guard.found()) result.finish_reason = FinishReason::kLength;
  result.budget_spent = run.budget && run.budget->spent();
  fill_result(result, answer, *sequence, num_taken);
  return result;
}

void say_ending(const RunResult& result, const Sequence& sequence, int64_t context,
                const Log& log) {
  for (const std::string& problem : result.tool_problems) {
    log.warn("a <tool_call> of the answer is no tool call and stays text: {}", problem);
  }
  if (result.budget_spent) {
    log.info("(the thought was ended at its budget of {})",
             counted(result.reasoning_tokens, "token"));
  }
  const bool only_thought = result.content.empty() && result.tool_calls.empty() &&
                            result.reasoning && !result.interrupted;
  if (only_thought && result.finish_reason == FinishReason::kStop) {
    log.warn("the model thought and gave no answer (--show-thinking shows the thought)");
  }
  if (result.finish_reason != FinishReason::kLength) return;
  if (result.repetition) {
    log.warn(
        "the answer repeats the same {} over and over ({} times so far) and ends here; "
        "--no-loop-guard lets it go on",
        counted(result.repetition->period, "token"), result.repetition->times);
  } else if (sequence.length() >= context && sequence.output_length() > 0 &&
             sequence.output_length() < sequence.request().max_tokens) {
    log.warn("the context of {} tokens is full: the answer ends here (see --ctx)", context);
  } else if (only_thought) {
    log.warn("--max-tokens {} was used up by the thought: there is no answer",
             sequence.request().max_tokens);
  }
}

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

}  // namespace llm
