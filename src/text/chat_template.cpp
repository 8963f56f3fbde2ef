#include "text/chat_template.h"

#include <iterator>
#include <system_error>

#include "base/error.h"
#include "base/files.h"

namespace llm {

namespace {

std::string role_of(const Value& message) {
  const Value* role = message.find("role");
  return role != nullptr && role->is_string() ? role->as_string() : "";
}

/// transformers copies the first of these that is given to reasoning_content and thinking.
const Value* find_reasoning(const Dict& message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (const Value* value = message.find(name)) return value;
  }
  return nullptr;
}

/// A tool's result that is no text: objects and lists print as JSON, true and false too.
Value json_content(const Value& content) {
  if (content.is_dict()) {
    Dict copy = content.as_dict();
    copy.print_as_json = true;
    return Value(std::move(copy));
  }
  if (content.is_list()) {
    List copy = content.as_list();
    copy.print_as_json = true;
    return Value(std::move(copy));
  }
  return content.is_bool() ? Value(content.as_bool() ? "true" : "false") : content;
}

Value prepare_message(const Value& message, bool python_tool_content) {
  Dict kept;
  for (const auto& [key, value] : message.as_dict().entries()) {
    if (!value.is_none()) kept.set(key, value);
  }
  if (const Value* found = find_reasoning(kept)) {
    const Value reasoning = *found;
    Dict aliased;
    aliased.set(Value("thinking"), reasoning);
    for (const auto& [key, value] : kept.entries()) aliased.set(key, value);
    aliased.set(Value("reasoning_content"), reasoning);
    kept = std::move(aliased);
  }
  const std::string role = role_of(message);
  const Value* content = kept.find("content");
  if (content == nullptr) {
    kept.set(Value("content"), Value(""));
  } else if (role == "tool" && !python_tool_content) {
    kept.set(Value("content"), json_content(*content));
  }
  const Origin origin = role == "assistant" ? Origin::kAssistant : Origin::kContent;
  return with_origin(Value(std::move(kept)), origin);
}

Value prepare_messages(const Value& messages, bool python_tool_content) {
  if (!messages.is_list()) {
    refuse("messages must be a list of objects with \"role\" and \"content\", not {}",
           messages.type_name());
  }
  const auto& list = messages.as_list().items;
  if (list.empty()) {
    refuse("Cannot apply chat template to an empty conversation. Provide at least one message.");
  }
  std::vector<Value> prepared;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_dict()) {
      refuse("messages[{}] must be an object with \"role\" and \"content\", not {}", i,
             list[i].type_name());
    }
    prepared.push_back(prepare_message(list[i], python_tool_content));
  }
  return Value::list(std::move(prepared));
}

Value prepare_tools(const Value& tools) {
  if (!tools.is_list()) refuse("tools must be a list of objects, not {}", tools.type_name());
  const auto& list = tools.as_list().items;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_dict()) {
      refuse("tools[{}] must be an object, not {}", i, list[i].type_name());
    }
  }
  return with_origin(tools, Origin::kContent);
}

Value make_context(const ChatInput& input) {
  Dict context;
  const auto set_token = [&](const char* name, const std::optional<std::string>& token) {
    if (token) context.set(Value(name), Value(*token));
  };
  set_token("bos_token", input.special_tokens.bos_token);
  set_token("eos_token", input.special_tokens.eos_token);
  set_token("pad_token", input.special_tokens.pad_token);
  set_token("unk_token", input.special_tokens.unk_token);
  context.set(Value("messages"), prepare_messages(input.messages, input.python_tool_content));
  const bool has_tools = input.tools && !input.tools->is_none();
  context.set(Value("tools"), has_tools ? prepare_tools(*input.tools) : Value::none());
  context.set(Value("documents"), Value::none());
  context.set(Value("add_generation_prompt"), Value(input.add_generation_prompt));
  if (input.enable_thinking) {
    context.set(Value("enable_thinking"), Value(*input.enable_thinking));
  }
  return Value(std::move(context));
}

std::vector<TextSpan> spans_of(const Text& text) {
  std::vector<TextSpan> spans;
  size_t begin = 0;
  for (const Text::Run& run : text.runs()) {
    if (run.origin != Origin::kTemplate) {
      const bool is_assistant = run.origin == Origin::kAssistant;
      spans.push_back(
          {begin, run.end, is_assistant ? AddedTokens::kNonSpecial : AddedTokens::kNone});
    }
    begin = run.end;
  }
  return spans;
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string source, std::string origin) {
  return ChatTemplate(jinja::Template::parse(source, std::move(origin)));
}

RenderedPrompt ChatTemplate::render(const ChatInput& input) const {
  try {
    const Text text = template_.render(make_context(input));
    return {text.str(), spans_of(text)};
  } catch (const ValueError& error) {
    refuse("messages: {}", error.what());
  }
}

namespace {

/// Nothing if there is no such file.
std::optional<std::string> read_small_file(const std::filesystem::path& path) {
  if (!is_listed(path)) return std::nullopt;
  return read_file(path, int64_t{64} << 20);
}

std::optional<Value> read_tokenizer_config(const std::filesystem::path& path) {
  const auto text = read_small_file(path);
  if (!text) return std::nullopt;
  Value config = parse_json_value(*text, path.string());
  if (!config.is_dict()) refuse("{}: expected a JSON object", path.string());
  return config;
}

/// One entry of a list of named templates.
std::pair<std::string, std::string> named_template(const Value& entry, const std::string& where) {
  const Value* name = entry.find("name");
  const Value* source = entry.find("template");
  if (name == nullptr || source == nullptr || !name->is_string() || !source->is_string()) {
    refuse(
        "{}: \"chat_template\": each entry of the list must be {{\"name\": text, "
        "\"template\": text}}",
        where);
  }
  return {name->as_string(), source->as_string()};
}

std::string choose_template(const Value& list, bool with_tools, const std::string& where) {
  std::optional<std::string> chosen, tool_use;
  for (const Value& entry : list.as_list().items) {
    auto [name, source] = named_template(entry, where);
    if (name == "default") chosen = std::move(source);
    if (name == "tool_use" && with_tools) tool_use = std::move(source);
  }
  if (tool_use) return *tool_use;
  if (!chosen) {
    refuse(
        "{}: \"chat_template\" has no template named \"default\"; choose a file with "
        "--chat-template",
        where);
  }
  return *chosen;
}

}  // namespace

std::optional<ChatTemplate> load_chat_template(const std::filesystem::path& model_dir,
                                               bool with_tools) {
  const auto own = model_dir / "chat_template.jinja";
  const auto tool_use = model_dir / "additional_chat_templates" / "tool_use.jinja";
  if (auto source = read_small_file(own)) {
    if (auto with = with_tools ? read_small_file(tool_use) : std::nullopt) {
      return ChatTemplate::parse(std::move(*with), tool_use.string());
    }
    return ChatTemplate::parse(std::move(*source), own.string());
  }
  const auto path = model_dir / "tokenizer_config.json";
  const auto config = read_tokenizer_config(path);
  const Value* found = config ? config->find("chat_template") : nullptr;
  if (found == nullptr || found->is_none()) return std::nullopt;
  const std::string origin = path.string() + ": chat_template";
  if (found->is_string()) return ChatTemplate::parse(found->as_string(), origin);
  if (!found->is_list()) {
    refuse("{}: \"chat_template\" must be text or a list of named templates, not {}", path.string(),
           found->type_name());
  }
  return ChatTemplate::parse(choose_template(*found, with_tools, path.string()), origin);
}

SpecialTokens load_special_tokens(const std::filesystem::path& model_dir) {
  const auto path = model_dir / "tokenizer_config.json";
  const auto config = read_tokenizer_config(path);
  SpecialTokens tokens;
  if (!config) return tokens;
  const auto read = [&](const char* key) -> std::optional<std::string> {
    const Value* value = config->find(key);
    if (value == nullptr || value->is_none()) return std::nullopt;
    const Value* text = value->is_dict() ? value->find("content") : value;
    if (text == nullptr || !text->is_string()) {
      refuse("{}: \"{}\" must be text, null or an object with the text \"content\"", path.string(),
             key);
    }
    return text->as_string();
  };
  tokens.bos_token = read("bos_token");
  tokens.eos_token = read("eos_token");
  tokens.pad_token = read("pad_token");
  tokens.unk_token = read("unk_token");
  return tokens;
}

}  // namespace llm
