// llm tokenize for chats and templates: --messages, --render, and lines of --jsonl that hold
// either.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "cli/answer_options.h"
#include "cli/chat_renderer.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace llm {

struct TokenizeChatOptions {
  std::optional<std::string> messages;  // file
  std::optional<std::string> tools;     // file
  std::optional<std::string> chat_template;
  Think think = Think::kAuto;
  bool no_generation_prompt = false;
  bool parse_special_in_content = false;

  std::optional<std::string> render;          // file, or the template itself
  std::optional<std::string> render_context;  // file
};

/// Adds all options and returns those that are an input: --messages, --render.
std::vector<CLI::Option*> add_tokenize_chat_options(CLI::App& app, TokenizeChatOptions& options);

/// Refuses (exit code 2) options without the one they belong to. `jsonl`: --jsonl is given.
void check_tokenize_chat_options(const TokenizeChatOptions& options, bool jsonl);

/// The ids of --messages.
std::vector<int32_t> tokenize_messages(const TokenizeChatOptions& options,
                                       const ChatRenderer& renderer, const Log& log);

/// The rendering of --render. Refuses (exit code 2) naming line and column of the template.
std::string render_template(const TokenizeChatOptions& options, const Log& log);

/// Answers lines of --jsonl: {"messages", "tools"?, "add_generation_prompt"?, "enable_thinking"?,
/// "parse_special_in_content"?} with {"prompt", "ids"} and {"template", "context"?} with {"text"}.
/// May be used from several threads at once.
class ChatLines {
 public:
  /// The template is only looked for when a line needs it. Tokenizer and log outlive the object.
  ChatLines(const Tokenizer& tokenizer, TemplateSource source, const Log& log)
      : tokenizer_(&tokenizer), source_(std::move(source)), log_(&log) {}

  /// Nothing for a line of another kind. Throws Error for one that can't be used.
  std::optional<std::string> answer(std::string_view line) const;

 private:
  const ChatRenderer& renderer() const;

  const Tokenizer* tokenizer_;
  TemplateSource source_;
  const Log* log_;
  mutable std::once_flag once_;
  mutable std::optional<ChatRenderer> renderer_;
};

}  // namespace llm
