// llm chat: a conversation in a terminal, or line by line through a pipe.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "cli/chat_session.h"
#include "cli/commands.h"
#include "cli/line_editor.h"
#include "cli/output.h"
#include "engine/memory.h"

namespace llm {
namespace {

constexpr const char* kFooter =
    "llm chat --system \"Answer in one sentence.\"\n\n"
    "On a terminal stdout carries the conversation, stderr thoughts and notices.\n"
    "/help lists the commands.\n\n"
    "Several lines: end a line with \\, or write \"\"\" before the first and after the\n"
    "last; a pasted text is one message. Ctrl-C stops the answer, whose beginning\n"
    "stays in the conversation; at the prompt, twice ends the chat, as Ctrl-D does.\n\n"
    "Where stdin is no terminal each line is one message or command, empty lines are\n"
    "skipped, and each answer goes to stdout with a newline at its end; the first\n"
    "mistake ends the chat.\n\n"
    "With --tools the model may call one: the call is shown as JSON, and the next\n"
    "message is its result (of several calls: the next messages, in order).\n\n"
    "When the context is full the oldest turns are no longer shown to the model, down\n"
    "to half of the context, which is said; the system message stays. A message too\n"
    "long by itself is refused.\n\n"
    "History: $XDG_STATE_HOME/llm/history, else ~/.local/state/llm/history.";

void add_chat_options(CLI::App& app, ChatOptions& o) {
  add_template_options(app, o.answer);
  add_stop_options(app, o.answer);
  begin_section(app, "Output");
  app.add_flag("--hide-thinking", o.hide_thinking, "Don't print thoughts (on a terminal)");
  app.add_flag("--show-thinking", o.show_thinking,
               "Print thoughts to stderr where stdin is no terminal");
  app.add_flag("--stats", o.stats, "Print times and speeds to stderr after each answer");
  add_sampling_options(app, o.sampling);
  add_engine_options(app, o.engine);
  add_common_options(app, o.common);
  app.footer(kFooter);
}

int64_t context_for(const ChatOptions& options, const ModelFiles& files, const Log& log) {
  ContextRequest request = cache_request(options.common, files, options.engine, {});
  request.max_tokens = kNoTokenLimit;
  return plan_context(request, files.config, log);
}

/// A terminal whose cursor can be moved about.
bool can_edit() {
  const char* term = std::getenv("TERM");
  return stdin_is_terminal() && (stdout_is_terminal() || stderr_is_terminal()) && term != nullptr &&
         *term != '\0' && std::string(term) != "dumb" && set_utf8_locale();
}

std::unique_ptr<LineSource> open_lines(ChatSignals* signals, const Log& log) {
  if (!can_edit()) {
    const bool prompts = stdin_is_terminal() && stdout_is_terminal();
    return std::make_unique<PlainLines>(signals, prompts, log);
  }
  const int out = stdout_is_terminal() ? STDOUT_FILENO : STDERR_FILENO;
  return std::make_unique<LineEditor>(out, *signals, ChatHistory(history_path()));
}

void greet(const ChatOptions& options, const ModelFiles& files, int64_t context, uint64_t seed,
           const Log& log) {
  const SamplingParams sampling = resolve_sampling(options.sampling, files.generation, seed);
  log.info("{}, chat template, context {}{}{}", files.name, context,
           sampling.temperature > 0 && !options.common.seed ? fmt::format(", seed {}", seed) : "",
           stdin_is_terminal() ? "; /help lists commands, Ctrl-D ends" : "");
  say_sampling(options.sampling, sampling, files.generation, log);
  warn_greedy_thinking(options.answer.think, options.sampling, log);
}

ExitCode chat(ChatOptions& options) {
  const Log log = options.common.log();
  check_answer_options(options.answer);
  check_engine_options(options.engine);
  repair_texts(options.answer, log);
  if (options.common.device.device == Device::kShape) {
    refuse("--device shape computes nothing: a chat needs a device that does");
  }
  const ModelFiles files = open_model(options.common, log);
  const ChatPrompter prompter(files, options.answer, log);
  std::optional<Value> tools;
  if (options.answer.tools) tools = read_tools(*options.answer.tools, log);
  const uint64_t seed = options.common.seed ? *options.common.seed : random_seed();
  const int64_t context = context_for(options, files, log);
  LoadedModel model(files, options.common.model, options.common.device,
                    options.common.seed.value_or(0), context, log);
  greet(options, files, context, seed, log);

  std::optional<ChatSignals> signals;
  if (stdin_is_terminal()) signals.emplace();
  ChatSignals* const noted = signals ? &*signals : nullptr;
  const std::unique_ptr<LineSource> lines = open_lines(noted, log);
  ChatSession session(options, files, prompter, model, context, seed, noted, log);
  if (tools) session.offer_tools(*tools);
  session.run(*lines);
  return ExitCode::kOk;
}

}  // namespace

Action add_chat(CLI::App& app) {
  auto options = std::make_shared<ChatOptions>();
  add_chat_options(app, *options);
  return [options] { return chat(*options); };
}

}  // namespace llm
