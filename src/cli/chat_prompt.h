// From the messages of a conversation to the ids of a prompt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/answer_options.h"
#include "cli/chat_renderer.h"
#include "engine/session.h"
#include "text/reasoning.h"
#include "text/value.h"

namespace llm {

struct Prompt {
  std::vector<int32_t> ids;
  bool chat = false;                                // made by a chat template
  ReasoningStart reasoning = ReasoningStart::kOff;  // where the answer starts
  bool tools_offered = false;
  int64_t num_tool_calls = 0;     // in the messages
  std::vector<int32_t> stop_ids;  // each ends the answer
};

/// The tokenizer; refuses (exit code 2) where the model has none.
const Tokenizer& tokenizer_of(const ModelFiles& files);

/// Refuses (exit code 2) ids that the model has no embedding for.
void check_vocabulary(const Prompt& prompt, const ModelFiles& files);

/// {"role": role, "content": content}
Value text_message(const char* role, std::string content);

struct MessagesFile {
  Value messages;  // a list
  std::optional<Value> tools;
};

/// Reads an array of messages, or an object of messages and tools. Refuses (exit code 2) anything
/// else. What the messages hold is up to the template.
MessagesFile read_messages(const std::string& flag, const std::string& path, const Log& log);

/// Reads an array of tools. Refuses (exit code 2) anything else. What the tools hold is up to the
/// template.
Value read_tools(const std::string& path, const Log& log);

/// read_messages(), with the tools of a file of their own if there is one. Refuses (exit code 2)
/// tools in both.
MessagesFile read_chat_files(const std::string& flag, const std::string& path,
                             const std::optional<std::string>& tools, const Log& log);

/// One model's chat template, ready to render conversations.
class ChatPrompter {
 public:
  /// Refuses (exit code 2) a model without a tokenizer or a template, and a template that can't be
  /// used. Files and log outlive the prompter.
  ChatPrompter(const ModelFiles& files, const AnswerOptions& options, const Log& log);

  /// Refuses (exit code 2) messages that the template refuses, and ids outside of the vocabulary.
  Prompt make(const Value& messages, const std::optional<Value>& tools, Think think) const;

 private:
  const ModelFiles* files_;
  const Log* log_;
  bool parse_special_in_content_;
  ChatRenderer renderer_;
};

}  // namespace llm
