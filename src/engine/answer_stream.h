// From generated ids to text as it may be shown: whole characters, thoughts apart from the answer,
// nothing of a stop string.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/reasoning.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"

namespace llm {

/// Text that has become certain.
struct AnswerPiece {
  std::string content;
  std::string reasoning;
};

class AnswerStream {
 public:
  /// `reasoning` is what the prompt left behind; kOff splits nothing off. The tokenizer outlives
  /// the stream; without one no id has text.
  AnswerStream(const Tokenizer* tokenizer, ReasoningStart reasoning,
               std::vector<std::string> stops);

  /// Text that is certain after one more id. Nothing after a stop string.
  AnswerPiece push(int32_t id);
  /// What was held back, when no more ids come.
  AnswerPiece finish();

  /// A stop string was found in the content; the content ends before it.
  bool stopped() const { return stops_.stopped(); }

  const std::string& content() const { return content_; }
  /// The thoughts, or nothing where thoughts aren't split off or there are none.
  std::optional<std::string> reasoning() const;
  /// Ids that belong to thoughts.
  int64_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  void add(AnswerPiece& piece, const ReasoningSplitter::Output& text);

  std::optional<Detokenizer> detokenizer_;
  ReasoningSplitter splitter_;
  StopStrings stops_;
  std::string content_;
  std::string reasoning_;
  int64_t reasoning_tokens_ = 0;
};

}  // namespace llm
