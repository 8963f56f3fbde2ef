#include "engine/answer_stream.h"

#include <iterator>
#include <utility>

namespace llm {

AnswerStream::AnswerStream(const Tokenizer* tokenizer, ReasoningStart reasoning,
                           std::vector<std::string> stops, bool tools_offered)
    : splitter_(reasoning), tool_splitter_(tools_offered), stops_(std::move(stops)) {
  if (tokenizer != nullptr) detokenizer_.emplace(*tokenizer, /*skip_special=*/true);
}

AnswerPiece AnswerStream::push(int32_t id) {
  AnswerPiece piece;
  if (stopped() || !detokenizer_) return piece;
  const bool was_thinking = splitter_.in_thought();
  add(piece, splitter_.push(detokenizer_->push(id)));
  // The markers around a thought count as part of it.
  reasoning_tokens_ += was_thinking || splitter_.in_thought();
  return piece;
}

AnswerPiece AnswerStream::finish() {
  AnswerPiece piece;
  if (stopped() || !detokenizer_) return piece;
  add(piece, splitter_.push(detokenizer_->finish()));
  add(piece, splitter_.finish());
  std::string rest = stops_.push(without_tool_calls(tool_splitter_.finish()));
  rest += stops_.finish();
  content_ += rest;
  piece.content += rest;
  return piece;
}

std::optional<std::string> AnswerStream::reasoning() const {
  if (reasoning_tokens_ == 0) return std::nullopt;
  return reasoning_;
}

void AnswerStream::add(AnswerPiece& piece, const ReasoningSplitter::Output& text) {
  reasoning_ += text.reasoning;
  piece.reasoning += text.reasoning;
  const std::string certain = stops_.push(without_tool_calls(tool_splitter_.push(text.content)));
  content_ += certain;
  piece.content += certain;
}

/// Keeps the calls and gives the rest.
std::string AnswerStream::without_tool_calls(ToolCallSplitter::Output text) {
  std::move(text.calls.begin(), text.calls.end(), std::back_inserter(tool_calls_));
  return std::move(text.content);
}

}  // namespace llm
