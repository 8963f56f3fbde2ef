#include "cli/answer_loop.h"

#include <utility>

#include "base/progress_line.h"
#include "cli/counted.h"
#include "cli/output.h"
#include "cli/terminal_text.h"
#include "engine/session.h"

namespace llm {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
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

AnswerCollector::AnswerCollector(std::shared_ptr<const Sequence> sequence, AnswerStream& answer,
                                 AnswerPrinter& printer, const AnswerRun& run)
    : sequence_(std::move(sequence)),
      answer_(&answer),
      printer_(&printer),
      budget_(run.budget),
      start_(Clock::now()) {
  if (run.loop_guard) guard_.emplace();
}

bool AnswerCollector::take() {
  if (!first_ && !sequence_->in_prefill()) first_ = Clock::now();
  if (num_taken_ < sequence_->output_length()) last_ = Clock::now();
  while (num_taken_ < sequence_->output_length()) {
    const int32_t id = sequence_->output_ids()[static_cast<size_t>(num_taken_++)];
    if (!sequence_->stops_at(id)) printer_->print(answer_->push(id));  // a stop id has no text
    if (answer_->stopped() || (guard_ && guard_->push(id))) return true;
  }
  return false;
}

FinishReason AnswerCollector::own_reason() const {
  return answer_->stopped() ? FinishReason::kStop : FinishReason::kLength;
}

RunResult AnswerCollector::finish() {
  printer_->print(answer_->finish());
  printer_->end(answer_->tool_calls());
  RunResult result;
  if (first_) result.prefill = seconds_between(start_, *first_);
  if (num_taken_ > 0) result.ttft = result.prefill;
  if (num_taken_ > 1) {
    result.tpot = seconds_between(*first_, last_) / static_cast<double>(num_taken_ - 1);
  }
  if (guard_) result.repetition = guard_->found();
  result.finish_reason = sequence_->finish_reason();
  if (answer_->stopped() || result.repetition) result.finish_reason = own_reason();
  result.tool_calls = answer_->tool_calls();
  if (result.finish_reason == FinishReason::kStop && !result.tool_calls.empty()) {
    result.finish_reason = FinishReason::kToolCalls;
  }
  result.budget_spent = budget_ && budget_->spent();
  result.content = answer_->content();
  result.reasoning = answer_->reasoning();
  result.tool_problems = answer_->tool_problems();
  result.reasoning_tokens = answer_->reasoning_tokens();
  result.cached_tokens = sequence_->num_prefix_cached_tokens();
  result.num_proposed = sequence_->num_proposed();
  result.num_accepted = sequence_->num_accepted();
  const auto ids = sequence_->output_ids().first(static_cast<size_t>(num_taken_));
  result.ids.assign(ids.begin(), ids.end());
  if (sequence_->request().num_logprobs) {
    const auto logprobs = sequence_->logprobs().first(ids.size());
    result.logprobs.emplace(logprobs.begin(), logprobs.end());
  }
  result.prompt_ids.assign(sequence_->prompt_ids().begin(), sequence_->prompt_ids().end());
  return result;
}

RunResult run_answer(Engine& engine, const std::shared_ptr<const Sequence>& sequence,
                     AnswerStream& answer, AnswerPrinter& printer, const AnswerRun& run) {
  ProgressLine progress(run.show_progress);
  AnswerCollector collector(sequence, answer, printer, run);
  bool interrupted = false;
  while (!sequence->finished()) {
    if (run.interrupted && run.interrupted()) {
      interrupted = true;
      engine.finish(*sequence, FinishReason::kStop);
      break;
    }
    engine.step();
    if (sequence->in_prefill()) {
      progress.show(
          fmt::format("prompt {}/{}", sequence->num_cached_tokens(), sequence->prompt_length()));
    } else {
      progress.clear();
    }
    if (collector.take()) engine.finish(*sequence, collector.own_reason());
  }
  progress.clear();
  RunResult result = collector.finish();
  result.interrupted = interrupted;
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
