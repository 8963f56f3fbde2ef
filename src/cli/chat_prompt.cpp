#include "cli/chat_prompt.h"

#include <utility>

#include "base/error.h"

namespace llm {
namespace {

/// Calls in the assistant's messages.
int64_t count_tool_calls(const Value& messages) {
  int64_t count = 0;
  for (const Value& message : messages.as_list().items) {
    const Value* calls = message.find("tool_calls");
    if (calls != nullptr && calls->is_list()) {
      count += static_cast<int64_t>(calls->as_list().items.size());
    }
  }
  return count;
}

}  // namespace

const Tokenizer& tokenizer_of(const ModelFiles& files) {
  if (!files.tokenizer) {
    refuse(
        "{} has no tokenizer.json: name a folder that has one with --tokenizer, or give the "
        "prompt as --token-ids",
        files.name);
  }
  return *files.tokenizer;
}

void check_vocabulary(const Prompt& prompt, const ModelFiles& files) {
  for (const int32_t id : prompt.ids) {
    if (id >= files.config.vocab_size) {
      refuse("id {} is not in the model's vocabulary of {} ids", id, files.config.vocab_size);
    }
  }
}

Value text_message(const char* role, std::string content) {
  Dict dict;
  dict.set(Value("role"), Value(role));
  dict.set(Value("content"), Value(std::move(content)));
  return Value(std::move(dict));
}

MessagesFile read_messages(const std::string& flag, const std::string& path, const Log& log) {
  const Value json = parse_json_value(read_named_text(flag, path, log), path);
  MessagesFile file;
  if (json.is_list()) {
    file.messages = json;
    return file;
  }
  if (!json.is_dict()) refuse("{}: expected an array of messages or an object", path);
  for (const auto& [key, value] : json.as_dict().entries()) {
    if (key.as_string() == "messages") {
      file.messages = value;
    } else if (key.as_string() == "tools") {
      if (!value.is_none()) file.tools = value;
    } else {
      refuse("{}: unknown key \"{}\" (expected messages, tools)", path, key.as_string());
    }
  }
  if (!file.messages.is_list()) refuse("{}: \"messages\" must be an array", path);
  return file;
}

Value read_tools(const std::string& path, const Log& log) {
  Value tools = parse_json_value(read_named_text("--tools", path, log), path);
  if (!tools.is_list()) refuse("--tools {}: expected an array of tools", path);
  for (size_t i = 0; i < tools.as_list().items.size(); ++i) {
    const Value& tool = tools.as_list().items[i];
    if (!tool.is_dict()) {
      refuse(
          "--tools {}: tool {} is no object: expected {{\"type\": \"function\", \"function\": "
          "...}}",
          path, i + 1);
    }
  }
  return tools;
}

MessagesFile read_chat_files(const std::string& flag, const std::string& path,
                             const std::optional<std::string>& tools, const Log& log) {
  MessagesFile file = read_messages(flag, path, log);
  if (!tools) return file;
  if (file.tools) refuse("both --tools and {} have tools: give them in one place", path);
  file.tools = read_tools(*tools, log);
  return file;
}

namespace {

/// Templates pass over what they don't know, and the model would answer another question.
void check_messages(const Value& messages, const Log& log) {
  if (!messages.is_list()) return;  // the template says so
  const std::vector<Value>& items = messages.as_list().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_dict()) continue;  // likewise
    const Value* role = items[i].find("role");
    if (role == nullptr || !role->is_string()) {
      refuse("message {} has no \"role\": expected {{\"role\": \"user\", \"content\": \"...\"}}",
             i + 1);
    }
    const Value* content = items[i].find("content");
    if (content != nullptr && content->is_list()) {
      log.warn("message {}: its content is a list, which many chat templates leave out: give text",
               i + 1);
    } else if (content == nullptr && role->as_string() == "user") {
      log.warn("message {} has no \"content\"", i + 1);
    }
  }
}

}  // namespace

ChatPrompter::ChatPrompter(const ModelFiles& files, const AnswerOptions& options, const Log& log)
    : files_(&files),
      log_(&log),
      parse_special_in_content_(options.parse_special_in_content),
      renderer_(
          tokenizer_of(files),
          {.tokenizer_dir = files.tokenizer_dir, .name = files.name, .file = options.chat_template},
          log) {}

Prompt ChatPrompter::make(const Value& messages, const std::optional<Value>& tools,
                          Think think) const {
  check_messages(messages, *log_);
  ChatInput input;
  input.messages = messages;
  input.tools = tools;
  input.python_tool_content = parse_special_in_content_;
  if (think != Think::kAuto) input.enable_thinking = think == Think::kOn;
  const RenderedPrompt rendered = renderer_.render(input);
  Prompt prompt;
  prompt.chat = true;
  prompt.ids = renderer_.encode(rendered, parse_special_in_content_);
  prompt.reasoning = reasoning_start(rendered.text, renderer_.model_thinks());
  prompt.tools_offered = tools && tools->is_list() && !tools->as_list().items.empty();
  prompt.num_tool_calls = count_tool_calls(messages);
  prompt.stop_ids = union_of_ids(files_->stop_ids, renderer_.stop_ids());
  if (prompt.tools_offered && renderer_.ignores_tools(input)) {
    log_->warn("the chat template has no place for tools: the model doesn't see them");
  }
  if (prompt.ids.empty()) refuse("the prompt is empty: it has no tokens");
  check_vocabulary(prompt, *files_);
  return prompt;
}

}  // namespace llm
