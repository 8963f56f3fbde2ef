#include "cli/run_prompt.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "cli/output.h"
#include "cli/prompt_input.h"
#include "text/chat_template.h"
#include "text/utf8.h"
#include "text/value.h"

namespace llm {
namespace {

constexpr size_t kMaxFileBytes = size_t{32} << 20;

/// A text file named by a flag, with ill-formed UTF-8 repaired.
std::string read_flag_file(const char* flag, const std::string& path, const Log& log) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    refuse("{} {}: {}", flag, path, error ? error.message() : "no such file");
  }
  if (std::filesystem::is_directory(status)) refuse("{} {}: is a folder", flag, path);
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse("{} {}: can't be read", flag, path);
  // Devices and pipes have no size to ask for: read up to the limit.
  std::string bytes;
  std::string chunk(1 << 16, '\0');
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
    bytes.append(chunk, 0, static_cast<size_t>(file.gcount()));
    if (bytes.size() > kMaxFileBytes) {
      refuse("{} {}: larger than {} MiB", flag, path, kMaxFileBytes >> 20);
    }
  }
  bool replaced = false;
  std::string text = replace_invalid_utf8(bytes, &replaced);
  if (replaced) log.warn("{} is not valid UTF-8: ill-formed parts became U+FFFD", path);
  return text;
}

const Tokenizer& tokenizer_of(const ModelFiles& files) {
  if (!files.tokenizer) {
    refuse(
        "{} has no tokenizer.json: name a folder that has one with --tokenizer, or give the "
        "prompt as --token-ids",
        files.name);
  }
  return *files.tokenizer;
}

std::string read_text(const RunOptions& options, const Log& log) {
  if (!options.prompt && !options.file && stdin_is_terminal()) {
    refuse("no prompt: llm run -m DIR \"PROMPT\", -f FILE, or text on stdin (`llm run --help`)");
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

Value message(const char* role, std::string content) {
  Dict dict;
  dict.set(Value("role"), Value(role));
  dict.set(Value("content"), Value(std::move(content)));
  return Value(std::move(dict));
}

/// Messages and tools: of the file, or the system message and the prompt.
ChatInput chat_input(const RunOptions& options, const Log& log) {
  ChatInput input;
  if (!options.messages) {
    std::vector<Value> messages;
    if (options.system) messages.push_back(message("system", *options.system));
    messages.push_back(message("user", read_text(options, log)));
    input.messages = Value::list(std::move(messages));
    return input;
  }
  const std::string& path = *options.messages;
  const Value json = parse_json_value(read_flag_file("--messages", path, log), path);
  if (json.is_list()) {
    input.messages = json;
    return input;
  }
  if (!json.is_dict()) refuse("{}: expected an array of messages or an object", path);
  for (const auto& [key, value] : json.as_dict().entries()) {
    if (key.as_string() == "messages") {
      input.messages = value;
    } else if (key.as_string() == "tools") {
      if (!value.is_none()) input.tools = value;
    } else {
      refuse("{}: unknown key \"{}\" (expected messages, tools)", path, key.as_string());
    }
  }
  if (!input.messages.is_list()) refuse("{}: \"messages\" must be an array", path);
  return input;
}

ChatTemplate template_for(const RunOptions& options, const ModelFiles& files, bool with_tools,
                          const Log& log) {
  if (options.chat_template) {
    return ChatTemplate::parse(read_flag_file("--chat-template", *options.chat_template, log),
                               *options.chat_template);
  }
  std::optional<ChatTemplate> own = load_chat_template(files.tokenizer_dir, with_tools);
  if (!own) {
    refuse(
        "{} has no chat template: use --raw for plain completion, or give one with "
        "--chat-template FILE",
        files.name);
  }
  return *std::move(own);
}

Prompt chat_prompt(const RunOptions& options, const ModelFiles& files, const Log& log) {
  const Tokenizer& tokenizer = tokenizer_of(files);
  // The template first: without one there is no need to wait for input.
  if (!options.chat_template) template_for(options, files, false, log);
  ChatInput input = chat_input(options, log);
  const ChatTemplate chat = template_for(options, files, input.tools.has_value(), log);
  if (options.think != Think::kAuto) input.enable_thinking = options.think == Think::kOn;
  input.special_tokens = load_special_tokens(files.tokenizer_dir);
  const RenderedPrompt rendered = chat.render(input);

  Prompt prompt;
  prompt.chat = true;
  const std::vector<TextSpan> none;
  prompt.ids = tokenizer.encode(rendered.text, AddedTokens::kAll,
                                options.parse_special_in_content ? none : rendered.spans);
  const bool model_thinks = tokenizer.id_of("<think>") && tokenizer.id_of("</think>");
  prompt.reasoning = reasoning_start(rendered.text, model_thinks);
  return prompt;
}

void check_vocabulary(const Prompt& prompt, const ModelFiles& files) {
  for (const int32_t id : prompt.ids) {
    if (id >= files.config.vocab_size) {
      refuse("id {} is not in the model's vocabulary of {} ids", id, files.config.vocab_size);
    }
  }
}

}  // namespace

Prompt make_prompt(const RunOptions& options, const ModelFiles& files, const Log& log) {
  Prompt prompt;
  if (options.token_ids) {
    prompt.ids = parse_token_ids(*options.token_ids);
  } else if (options.raw) {
    const Tokenizer& tokenizer = tokenizer_of(files);
    prompt.ids = tokenizer.encode(read_text(options, log));
  } else {
    prompt = chat_prompt(options, files, log);
  }
  if (prompt.ids.empty()) refuse("the prompt is empty: it has no tokens");
  check_vocabulary(prompt, files);
  return prompt;
}

}  // namespace llm
