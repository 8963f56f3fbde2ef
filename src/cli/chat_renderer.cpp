#include "cli/chat_renderer.h"

#include <fstream>
#include <utility>

#include "base/error.h"
#include "text/utf8.h"

namespace llm {
namespace {

constexpr size_t kMaxFileBytes = size_t{32} << 20;
constexpr const char* kMessageStart = "<|im_start|>";
constexpr const char* kMessageEnd = "<|im_end|>";

/// ChatML and nothing else: what it can't express is refused rather than left out.
constexpr const char* kPlainChatml =
    "{% if tools %}"
    "{{ raise_exception('plain ChatML has no form for tools: give --chat-template FILE') }}"
    "{% endif %}"
    "{% for message in messages %}"
    "{% if message.tool_calls or message.role == 'tool' %}"
    "{{ raise_exception('plain ChatML has no form for tool calls: give --chat-template FILE') }}"
    "{% endif %}"
    "{% if message.content is not string %}"
    "{{ raise_exception('plain ChatML needs content that is text') }}"
    "{% endif %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
/// For vocabularies with the markers of thoughts.
constexpr const char* kNoThought =
    "{% if add_generation_prompt and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}";

}  // namespace

ChatRenderer::ChatRenderer(const Tokenizer& tokenizer, const TemplateSource& source, const Log& log)
    : tokenizer_(&tokenizer), special_tokens_(load_special_tokens(source.tokenizer_dir)) {
  if (source.file) {
    template_ =
        ChatTemplate::parse(read_named_text("--chat-template", *source.file, log), *source.file);
    return;
  }
  template_ = load_chat_template(source.tokenizer_dir, /*with_tools=*/false);
  if (template_) {
    tools_template_ = load_chat_template(source.tokenizer_dir, /*with_tools=*/true);
    return;
  }
  const std::optional<int32_t> end = tokenizer.id_of(kMessageEnd);
  if (!tokenizer.id_of(kMessageStart) || !end) {
    refuse(
        "{} has no chat template: use `llm run --raw` for plain completion, or give one with "
        "--chat-template FILE",
        source.name);
  }
  log.info("{} has no chat template: plain ChatML is used (see --chat-template)", source.name);
  std::string text = kPlainChatml;
  if (model_thinks()) text += kNoThought;
  template_ = ChatTemplate::parse(std::move(text), "plain ChatML");
  stop_ids_ = {*end};
}

RenderedPrompt ChatRenderer::render(ChatInput input) const {
  input.special_tokens = special_tokens_;
  return (input.tools && tools_template_ ? tools_template_ : template_)->render(input);
}

std::vector<int32_t> ChatRenderer::encode(const RenderedPrompt& prompt, bool parse_special) const {
  const std::vector<TextSpan> none;
  return tokenizer_->encode(prompt.text, AddedTokens::kAll, parse_special ? none : prompt.spans);
}

bool ChatRenderer::ignores_tools(const ChatInput& input) const {
  ChatInput without = input;
  without.tools.reset();
  return input.tools && render(input).text == render(std::move(without)).text;
}

bool ChatRenderer::model_thinks() const {
  return tokenizer_->id_of("<think>") && tokenizer_->id_of("</think>");
}

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

}  // namespace llm
