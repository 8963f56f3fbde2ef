#include "cli/conversation.h"

#include <algorithm>
#include <utility>

#include "cli/chat_prompt.h"
#include "cli/run_report.h"

namespace llm {
namespace {

bool has_role(const Value& message, std::string_view role) {
  const Value* found = message.find("role");
  return found != nullptr && found->is_string() && found->as_string() == role;
}

bool is_user(const Value& message) { return has_role(message, "user"); }

/// A call as OpenAI's messages have it, but with arguments as an object: templates print them, and
/// a text would be printed as a quoted text.
Value call_message(const ToolCall& call, int64_t number) {
  Dict function;
  function.set(Value("name"), Value(call.name));
  function.set(Value("arguments"), parse_json_value(call.arguments, "arguments"));
  Dict message;
  message.set(Value("id"), Value(tool_call_id(number)));
  message.set(Value("type"), Value("function"));
  message.set(Value("function"), Value(std::move(function)));
  return Value(std::move(message));
}

/// "" where the call, as read from a file, has none.
std::string function_name(const Value& call) {
  const Value* function = call.find("function");
  const Value* name = (function != nullptr ? *function : call).find("name");
  return name != nullptr && name->is_string() ? name->as_string() : std::string();
}

}  // namespace

Conversation::Conversation(const Value& messages, std::optional<Value> tools)
    : messages_(messages.as_list().items), tools_(std::move(tools)) {}

size_t Conversation::num_system() const {
  const auto end = std::find_if(messages_.begin(), messages_.end(), [](const Value& message) {
    return !has_role(message, "system") && !has_role(message, "developer");
  });
  return static_cast<size_t>(end - messages_.begin());
}

size_t Conversation::last_user() const {
  const auto it = std::find_if(messages_.rbegin(), messages_.rend(), is_user);
  if (it == messages_.rend()) return messages_.size();
  return static_cast<size_t>(messages_.rend() - it) - 1;
}

std::optional<std::string> Conversation::system() const {
  if (messages_.empty() || !has_role(messages_.front(), "system")) return std::nullopt;
  const Value* content = messages_.front().find("content");
  return content != nullptr && content->is_string() ? content->as_string() : std::string();
}

void Conversation::set_system(std::optional<std::string> text) {
  if (system()) messages_.erase(messages_.begin());
  if (text) messages_.insert(messages_.begin(), text_message("system", *std::move(text)));
}

void Conversation::add_user(std::string text) {
  messages_.push_back(text_message("user", std::move(text)));
}

void Conversation::add_assistant(std::string content, std::optional<std::string> reasoning,
                                 const std::vector<ToolCall>& tool_calls, int64_t first_call) {
  Dict message;
  message.set(Value("role"), Value("assistant"));
  if (reasoning) message.set(Value("reasoning_content"), Value(*std::move(reasoning)));
  message.set(Value("content"), Value(std::move(content)));
  if (!tool_calls.empty()) {
    std::vector<Value> calls;
    for (const ToolCall& call : tool_calls) calls.push_back(call_message(call, first_call++));
    message.set(Value("tool_calls"), Value::list(std::move(calls)));
  }
  messages_.push_back(Value(std::move(message)));
}

/// Tool results at the end.
size_t Conversation::num_results() const {
  const auto end = std::find_if_not(messages_.rbegin(), messages_.rend(),
                                    [](const Value& message) { return has_role(message, "tool"); });
  return static_cast<size_t>(end - messages_.rbegin());
}

std::vector<std::string> Conversation::open_calls() const {
  const size_t results = num_results();
  if (results == messages_.size()) return {};
  const Value* calls = messages_[messages_.size() - 1 - results].find("tool_calls");
  if (calls == nullptr || !calls->is_list()) return {};
  std::vector<std::string> names;
  const std::vector<Value>& items = calls->as_list().items;
  for (size_t i = results; i < items.size(); ++i) names.push_back(function_name(items[i]));
  return names;
}

void Conversation::add_tool_result(std::string text) {
  const size_t results = num_results();
  const Value& asked = messages_[messages_.size() - 1 - results];
  const Value call = asked.find("tool_calls")->as_list().items[results];
  Dict message;
  message.set(Value("role"), Value("tool"));
  if (const Value* id = call.find("id")) message.set(Value("tool_call_id"), *id);
  message.set(Value("name"), Value(function_name(call)));
  message.set(Value("content"), Value(std::move(text)));
  messages_.push_back(Value(std::move(message)));
}

void Conversation::take_back() {
  if (const size_t results = num_results(); results > 0) {
    messages_.resize(messages_.size() - results);
    return;
  }
  messages_.resize(last_user());
  hidden_turns_ = std::min(hidden_turns_, std::max<int64_t>(0, num_turns() - 1));
}

bool Conversation::take_back_answer() {
  const size_t user = last_user();
  if (user == messages_.size()) return false;
  messages_.resize(user + 1);
  return true;
}

void Conversation::clear() {
  messages_.resize(num_system());
  hidden_turns_ = 0;
}

bool Conversation::awaits_answer() const {
  return messages_.size() > num_system() && !has_role(messages_.back(), "assistant");
}

int64_t Conversation::num_turns() const {
  return std::count_if(messages_.begin(), messages_.end(), is_user);
}

Value Conversation::visible() const {
  std::vector<Value> shown;
  int64_t turn = 0;  // 1 in the first turn; what comes before it is hidden with it
  for (size_t i = 0; i < messages_.size(); ++i) {
    turn += is_user(messages_[i]);
    if (i < num_system() || hidden_turns_ == 0 || turn > hidden_turns_) {
      shown.push_back(messages_[i]);
    }
  }
  return Value::list(std::move(shown));
}

std::string Conversation::to_json() const {
  Dict file;
  file.set(Value("messages"), Value::list(messages_));
  if (tools_) file.set(Value("tools"), *tools_);
  JsonFormat format;
  format.indent = "  ";
  format.item_separator = Text(",");
  return llm::to_json(Value(std::move(file)), format).str() + "\n";
}

}  // namespace llm
