// The messages of a chat, and which of them the model still sees.
//
// Messages are kept as they are in JSON, so that a loaded conversation reaches the template
// untouched. A turn begins with a user message and holds everything up to the next one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/tool_calls.h"
#include "text/value.h"

namespace llm {

class Conversation {
 public:
  Conversation() = default;
  /// Messages as read from a file, a list; tools as they came with them.
  explicit Conversation(const Value& messages, std::optional<Value> tools = {});

  /// The first message's text if that is a system message.
  std::optional<std::string> system() const;
  /// Sets, replaces or takes away the system message.
  void set_system(std::optional<std::string> text);

  void add_user(std::string text);
  /// The thoughts are kept beside the content, where templates look for them.
  /// Tool calls get the ids of the numbers from `first_call` on.
  void add_assistant(std::string content, std::optional<std::string> reasoning,
                     const std::vector<ToolCall>& tool_calls = {}, int64_t first_call = 1);
  /// The names of the last message's tool calls that have no result yet.
  std::vector<std::string> open_calls() const;
  /// The result of the first open call.
  void add_tool_result(std::string text);
  /// Takes away the results at the end; if there are none, the last user message and what follows
  /// it.
  void take_back();
  /// Takes away what follows the last user message; false if there is no user message.
  bool take_back_answer();
  /// Takes away all but the system message.
  void clear();

  bool awaits_answer() const;
  int64_t num_messages() const { return static_cast<int64_t>(messages_.size()); }
  int64_t num_turns() const;

  /// The oldest turns that the model doesn't see any more, because the context is full.
  int64_t hidden_turns() const { return hidden_turns_; }
  /// There must be a turn left after them.
  void hide_turns(int64_t count) { hidden_turns_ = count; }

  /// What the model sees: system messages at the start, and the turns that aren't hidden.
  Value visible() const;
  const std::optional<Value>& tools() const { return tools_; }
  void set_tools(const Value& tools) { tools_ = tools; }

  /// {"messages": [...]}, with "tools" where there are any; ends in a newline.
  std::string to_json() const;

 private:
  size_t num_system() const;
  size_t num_results() const;
  size_t last_user() const;  // messages_.size() if there is none

  std::vector<Value> messages_;
  std::optional<Value> tools_;
  int64_t hidden_turns_ = 0;
};

}  // namespace llm
