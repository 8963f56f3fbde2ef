#include "cli/chat_session.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "cli/counted.h"
#include "cli/output.h"
#include "engine/answer_stream.h"

namespace llm {
namespace {

/// Share of the context that a turn's prompt leaves to the answer before old turns go.
constexpr int64_t kAnswerShare = 8;
/// How full old turns leave the context when some must go: to go one at a time would change the
/// prompt's beginning in every turn, and all of it would be computed anew.
constexpr int64_t kKeptShare = 2;

EngineOptions engine_options(const ChatOptions& options, int64_t context) {
  return {.scheduler = {.context = context, .max_num_seqs = 1},
          .num_cache_tokens = context,
          .kv_dtype = options.common.device.cache_dtype()};
}

}  // namespace

ChatSession::ChatSession(ChatOptions options, const ModelFiles& files, const ChatPrompter& prompter,
                         LoadedModel& model, int64_t context, uint64_t seed, ChatSignals* signals,
                         const Log& log)
    : options_(std::move(options)),
      files_(&files),
      prompter_(&prompter),
      model_(&model),
      signals_(signals),
      log_(&log),
      engine_(make_engine(model, files, engine_options(options_, context), options_.engine, log)),
      seed_(seed) {
  conversation_.set_system(options_.answer.system);
}

void ChatSession::show(std::string_view text) const {
  write_stderr(escape_controls(text));
  if (!text.ends_with('\n')) write_stderr("\n");
}

/// The next thing to do; an interrupt is only handed on when it comes twice.
Line ChatSession::next_entry(LineSource& lines) {
  bool interrupted = false;
  while (true) {
    Line line = interactive() ? read_typed_message(lines) : lines.read("");
    if (line.kind != Line::Kind::kInterrupted) return line;
    if (interrupted) return line;
    show("(Ctrl-C again, Ctrl-D or /exit ends the chat)");
    interrupted = true;
  }
}

void ChatSession::run(LineSource& lines) {
  for (int64_t number = 1;; ++number) {
    const Line line = next_entry(lines);
    if (line.kind != Line::Kind::kText) return;
    if (line.text.empty() && !line.is_message) continue;
    lines.remember(line.text);
    const ChatEntry entry = line.is_message
                                ? ChatEntry{.kind = ChatEntry::Kind::kMessage, .text = line.text}
                                : parse_entry(line.text);
    try {
      if (!handle(entry)) return;
    } catch (const Error& error) {
      if (error.code() == ExitCode::kClosedPipe) throw;
      if (!interactive()) fail("line {}: {}", number, error.what());
      show(error.what());
    }
  }
}

bool ChatSession::handle(const ChatEntry& entry) {
  switch (entry.kind) {
    case ChatEntry::Kind::kMessage:
      send(entry.text);
      return true;
    case ChatEntry::Kind::kCommand:
      return handle_command(entry.command, entry.text);
    case ChatEntry::Kind::kMistake:
      refuse("{}", entry.text);
  }
  return true;
}

void ChatSession::send(const std::string& text) {
  Conversation before = conversation_;
  const std::string message = attached_.empty() ? text : text + "\n\n" + attached_;
  if (conversation_.open_calls().empty()) {
    conversation_.add_user(message);
  } else {
    conversation_.add_tool_result(message);
  }
  try {
    if (conversation_.open_calls().empty()) answer();
    say_open_call();
  } catch (const Error&) {
    conversation_ = std::move(before);
    if (!attached_.empty()) log_->info("(the attached file is dropped with the message)");
    attached_.clear();
    throw;
  }
  attached_.clear();
}

/// The prompt of the conversation. Where it leaves too little of the context, the oldest turns
/// stay out of it, which is said; a last message that is too long by itself is refused.
Prompt ChatSession::fitting_prompt() {
  const int64_t context = engine_->options().scheduler.context;
  int64_t limit = context - context / kAnswerShare;
  const int64_t hidden_before = conversation_.hidden_turns();
  const auto make = [&] {
    return prompter_->make(conversation_.visible(), conversation_.tools(), options_.answer.think);
  };
  Prompt prompt = make();
  const auto length = [&] { return static_cast<int64_t>(prompt.ids.size()); };
  if (length() > limit) {
    // The fewest turns hidden that leave a short enough prompt; all but the last, if none do.
    limit = context / kKeptShare;
    int64_t least = hidden_before, most = std::max<int64_t>(least, conversation_.num_turns() - 1);
    while (least < most) {
      const int64_t middle = least + (most - least) / 2;
      conversation_.hide_turns(middle);
      prompt = make();
      (length() > limit ? least : most) = length() > limit ? middle + 1 : middle;
    }
    conversation_.hide_turns(most);
    prompt = make();
  }
  if (length() >= context) {
    refuse(
        "the message makes a prompt of {}, but the context holds {}: give {}. The message is "
        "taken back",
        counted(length(), "token"), context,
        context < files_->config.max_position_embeddings ? "a shorter message or a larger --ctx"
                                                         : "a shorter message");
  }
  if (const int64_t hidden = conversation_.hidden_turns() - hidden_before; hidden > 0) {
    log_->warn(
        "the context of {} tokens is full: the model no longer sees the oldest {} ({} in all; "
        "/save still has them)",
        context, counted(hidden, "turn"), conversation_.hidden_turns());
  }
  return prompt;
}

Request ChatSession::make_request(const Prompt& prompt) {
  Request request;
  request.prompt_ids = prompt.ids;
  // Every answer draws anew, /regen too, and a given seed still fixes the whole chat.
  request.sampling = resolve_sampling(options_.sampling, files_->generation, seed_ + num_answers_);
  request.stop_ids = prompt.stop_ids;
  request.max_tokens = options_.answer.max_tokens.value_or(kNoTokenLimit);
  request.num_ids = files_->num_ids();
  return request;
}

void ChatSession::answer() {
  const Prompt prompt = fitting_prompt();
  Request request = make_request(prompt);
  ++num_answers_;
  if (signals_ != nullptr) signals_->take_interrupt();  // one of before doesn't count
  AnswerStream stream(&*files_->tokenizer, prompt.reasoning, options_.answer.stops,
                      prompt.tools_offered);
  const auto budget =
      limit_thought(request, options_.answer.think_budget, &*files_->tokenizer, stream);
  const auto sequence = engine_->add(std::move(request));
  AnswerPrinter printer(
      {.thoughts = interactive() ? !options_.hide_thinking : options_.show_thinking,
       .mark_thoughts = true,
       .end_line = true});
  AnswerRun how{.loop_guard = options_.answer.loop_guard,
                .show_progress = !options_.common.quiet,
                .budget = budget};
  if (signals_ != nullptr) how.interrupted = [this] { return signals_->take_interrupt(); };
  try {
    RunResult result = run_answer(*engine_, sequence, stream, printer, how);
    result.first_tool_call = prompt.num_tool_calls + 1;
    result.decode_bytes = decode_bytes(model_->decoder(), *sequence, engine_->options().kv_dtype);
    say_ending(result, *sequence, engine_->options().scheduler.context, *log_);
    if (interactive() && sequence->output_length() >= sequence->request().max_tokens &&
        result.finish_reason == FinishReason::kLength) {
      log_->info("(cut at {}; /set max-tokens unlimited lets answers end by themselves)",
                 counted(sequence->output_length(), "token"));
    }
    last_length_ = sequence->length();
    keep_answer(result);
    last_ = std::move(result);
  } catch (const Error&) {
    engine_->finish(*sequence, FinishReason::kStop);
    throw;
  }
  if (options_.stats) show(run_stats(*last_));
  if (interactive() && stdout_is_terminal()) write_stdout("\n");
}

/// Says whose result the next message is.
void ChatSession::say_open_call() const {
  const std::vector<std::string> open = conversation_.open_calls();
  if (!open.empty())
    log_->info("(the next message is the result of {})", escape_controls(open.front()));
}

void ChatSession::keep_answer(const RunResult& result) {
  const bool any = !result.content.empty() || !result.tool_calls.empty();
  if (any || !result.interrupted) {
    conversation_.add_assistant(result.content, result.reasoning, result.tool_calls,
                                result.first_tool_call);
  }
  if (!result.interrupted) return;
  if (any) {
    log_->info("(stopped; the conversation keeps this much of the answer)");
  } else {
    conversation_.take_back();
    log_->info("(stopped before the answer; the message is taken back)");
  }
}

}  // namespace llm
