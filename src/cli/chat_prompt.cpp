#include "cli/chat_prompt.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "text/utf8.h"

namespace llm {
namespace {

constexpr size_t kMaxFileBytes = size_t{32} << 20;

ChatTemplate own_template_of(const ModelFiles& files, bool with_tools) {
  std::optional<ChatTemplate> own = load_chat_template(files.tokenizer_dir, with_tools);
  if (!own) {
    refuse(
        "{} has no chat template: use `llm run --raw` for plain completion, or give one with "
        "--chat-template FILE",
        files.name);
  }
  return *std::move(own);
}

ChatTemplate first_template(const ModelFiles& files, const AnswerOptions& options, const Log& log) {
  if (!options.chat_template) return own_template_of(files, /*with_tools=*/false);
  return ChatTemplate::parse(read_named_text("--chat-template", *options.chat_template, log),
                             *options.chat_template);
}

}  // namespace

std::string read_named_text(const std::string& flag, const std::string& path, const Log& log) {
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
  if (file.bad()) refuse("{} {}: can't be read to its end", flag, path);
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

ChatPrompter::ChatPrompter(const ModelFiles& files, const AnswerOptions& options, const Log& log)
    : files_(&files),
      tokenizer_(&tokenizer_of(files)),
      parse_special_in_content_(options.parse_special_in_content),
      given_template_(options.chat_template.has_value()),
      template_(first_template(files, options, log)),
      special_tokens_(load_special_tokens(files.tokenizer_dir)) {}

Prompt ChatPrompter::make(const Value& messages, const std::optional<Value>& tools,
                          Think think) const {
  ChatInput input;
  input.messages = messages;
  input.tools = tools;
  if (think != Think::kAuto) input.enable_thinking = think == Think::kOn;
  input.special_tokens = special_tokens_;
  const bool tools_template = tools && !given_template_;
  const RenderedPrompt rendered = tools_template
                                      ? own_template_of(*files_, /*with_tools=*/true).render(input)
                                      : template_.render(input);
  Prompt prompt;
  prompt.chat = true;
  const std::vector<TextSpan> none;
  prompt.ids = tokenizer_->encode(rendered.text, AddedTokens::kAll,
                                  parse_special_in_content_ ? none : rendered.spans);
  const bool model_thinks = tokenizer_->id_of("<think>") && tokenizer_->id_of("</think>");
  prompt.reasoning = reasoning_start(rendered.text, model_thinks);
  if (prompt.ids.empty()) refuse("the prompt is empty: it has no tokens");
  check_vocabulary(prompt, *files_);
  return prompt;
}

}  // namespace llm
