#include "cli/run_prompt.h"

#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "cli/output.h"
#include "cli/prompt_input.h"

namespace llm {
namespace {

std::string read_text(const RunOptions& options, const Log& log) {
  if (!options.prompt && !options.file && stdin_is_terminal()) {
    refuse("no prompt: llm run \"PROMPT\", -f FILE, or text on stdin (`llm run --help`)");
  }
  const bool drop = options.raw ? options.strip_newline : !options.keep_newline;
  std::string text = read_prompt({.prompt = options.prompt,
                                  .file = options.file,
                                  .escape = options.escape,
                                  .raw = options.raw,
                                  .drop_newline = drop},
                                 log);
  if (text.empty()) refuse("the prompt is empty: give PROMPT, -f FILE, or text on stdin");
  return text;
}

/// Messages and tools: of the file, or the system message and the prompt.
MessagesFile read_chat(const RunOptions& options, const Log& log) {
  if (options.messages) {
    return read_chat_files("--messages", *options.messages, options.answer.tools, log);
  }
  std::optional<Value> tools;
  if (options.answer.tools) tools = read_tools(*options.answer.tools, log);
  std::vector<Value> messages;
  if (options.answer.system) messages.push_back(text_message("system", *options.answer.system));
  messages.push_back(text_message("user", read_text(options, log)));
  return {.messages = Value::list(std::move(messages)), .tools = std::move(tools)};
}

}  // namespace

Prompt make_prompt(const RunOptions& options, const ModelFiles& files, const Log& log) {
  if (!options.token_ids && !options.raw) {
    // The template first: without one there is no need to wait for input.
    const ChatPrompter prompter(files, options.answer, log);
    const MessagesFile chat = read_chat(options, log);
    return prompter.make(chat.messages, chat.tools, options.answer.think);
  }
  Prompt prompt;
  prompt.stop_ids = files.stop_ids;
  if (options.token_ids) {
    prompt.ids = parse_token_ids(*options.token_ids);
  } else {
    const Tokenizer& tokenizer = tokenizer_of(files);
    prompt.ids = tokenizer.encode_prompt(read_text(options, log));
  }
  if (prompt.ids.empty()) refuse("the prompt is empty: it has no tokens");
  check_vocabulary(prompt, files);
  return prompt;
}

}  // namespace llm
