// A model's chat template together with its tokenizer: from messages to text and ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace llm {

/// Where a template comes from.
struct TemplateSource {
  std::filesystem::path tokenizer_dir;
  std::string name;                 // of the model, for messages
  std::optional<std::string> file;  // instead of the model's own
};

/// Immutable; may be used from several threads at once.
class ChatRenderer {
 public:
  /// Where the folder has no template but the vocabulary has ChatML's markers, plain ChatML is
  /// used, which is said. Refuses (exit code 2) a model without either, and a template that can't
  /// be used. The tokenizer outlives the renderer.
  ChatRenderer(const Tokenizer& tokenizer, const TemplateSource& source, const Log& log);

  /// Fills in the special tokens. Refuses (exit code 2) what the template refuses.
  RenderedPrompt render(ChatInput input) const;

  /// The ids; with `parse_special` added tokens are recognised in messages too.
  std::vector<int32_t> encode(const RenderedPrompt& prompt, bool parse_special) const;

  /// The template writes the same without this input's tools.
  bool ignores_tools(const ChatInput& input) const;

  /// Ids that end an answer beside the model's own.
  const std::vector<int32_t>& stop_ids() const { return stop_ids_; }
  /// The vocabulary has the markers of thoughts.
  bool model_thinks() const;

 private:
  const Tokenizer* tokenizer_;
  std::optional<ChatTemplate> template_;
  std::optional<ChatTemplate> tools_template_;  // used with tools, where the model has another
  SpecialTokens special_tokens_;
  std::vector<int32_t> stop_ids_;
};

/// What --render and template files hold: a text file with ill-formed UTF-8 repaired, which is
/// said. `flag` is what named the file. Refuses (exit code 2) what can't be read or is larger than
/// 32 MiB.
std::string read_named_text(const std::string& flag, const std::string& path, const Log& log);

}  // namespace llm
