#include "text/tokenizer.h"
#include "text/utf8.h"

namespace llm {
namespace {

/// Bytes at the end that begin a character but don't complete it.
size_t incomplete_suffix(std::string_view text) {
  while (!text.empty()) {
    const Utf8Part part = first_utf8_part(text);
    if (part.kind == Utf8Part::Kind::kIncomplete) return part.length;
    text.remove_prefix(part.length);
  }
  return 0;
}

}  // namespace

std::string Detokenizer::push(int32_t id) {
  if (skip_special_ && tokenizer_->is_special(id)) return {};
  std::string text = std::move(pending_);
  text.append(tokenizer_->bytes_of(id));
  pending_ = text.substr(text.size() - incomplete_suffix(text));
  text.resize(text.size() - pending_.size());
  return replace_invalid_utf8(text);
}

std::string Detokenizer::finish() {
  const std::string rest = replace_invalid_utf8(pending_);
  pending_.clear();
  return rest;
}

}  // namespace llm
