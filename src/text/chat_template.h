// From messages and tools to the text of a prompt, by the model's own chat template.
//
// Messages are treated as transformers 5 does: keys whose value is null are dropped, and reasoning
// under the names `reasoning` or `thinking` is also given as `reasoning_content`. Where that raises
// we are more lenient: content that is null or absent is empty text.
//
// What a message says must not become a control token. The rendered text therefore comes with spans
// for the tokenizer: in system, user and tool messages and in tool definitions no added token is
// recognised, in assistant messages only those that aren't special (<think>, <tool_call>).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/jinja.h"
#include "text/tokenizer.h"
#include "text/value.h"

namespace llm {

/// Texts of the tokens that templates may name; absent ones are undefined in the template.
struct SpecialTokens {
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::optional<std::string> pad_token;
  std::optional<std::string> unk_token;
};

struct ChatInput {
  Value messages;              // a list of objects, as read from JSON
  std::optional<Value> tools;  // a list of objects; absent: none in the template
  bool add_generation_prompt = true;
  std::optional<bool> enable_thinking;  // absent: undefined in the template
  SpecialTokens special_tokens;
  /// The content of a tool message that is an object or a list is printed as JSON; with this, as
  /// the reference prints it (Python's repr).
  bool python_tool_content = false;
};

struct RenderedPrompt {
  std::string text;
  std::vector<TextSpan> spans;  // ascending, disjoint: where fewer added tokens are recognised
};

/// Immutable; may be used from several threads at once.
class ChatTemplate {
 public:
  /// Refuses (exit code 2) a text that isn't a template, naming `origin`, line and column.
  static ChatTemplate parse(std::string source, std::string origin);

  /// Refuses (exit code 2) messages that aren't a list of objects, an empty list, and whatever the
  /// template refuses (its own message is part of ours).
  RenderedPrompt render(const ChatInput& input) const;

 private:
  explicit ChatTemplate(jinja::Template tmpl) : template_(std::move(tmpl)) {}
  jinja::Template template_;
};

/// The template of a model folder: chat_template.jinja, else "chat_template" of
/// tokenizer_config.json. With tools, a template named tool_use is preferred where there are
/// several. Nothing if the folder has none; refuses malformed files, naming file and key.
std::optional<ChatTemplate> load_chat_template(const std::filesystem::path& model_dir,
                                               bool with_tools);

/// bos_token and the like of tokenizer_config.json: a text, an object with "content", or null. All
/// absent where there is no such file. Refuses malformed files, naming file and key.
SpecialTokens load_special_tokens(const std::filesystem::path& model_dir);

}  // namespace llm
