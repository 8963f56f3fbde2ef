// From generated ids to text as it may be shown: whole characters, thoughts and tool calls apart
// from the answer, nothing of a stop string. Stop strings are looked for in the content alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/reasoning.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"
#include "text/tool_calls.h"

namespace llm {

/// Text that has become certain.
struct AnswerPiece {
  std::string content;
  std::string reasoning;
};

class AnswerStream {
 public:
  /// `reasoning` is what the prompt left behind; kOff splits nothing off. Tool calls are only taken
  /// out where tools were offered. The tokenizer outlives the stream; without one no id has text.
  AnswerStream(const Tokenizer* tokenizer, ReasoningStart reasoning, std::vector<std::string> stops,
               bool tools_offered = false);

  /// Text that is certain after one more id. Nothing after a stop string.
  AnswerPiece push(int32_t id);
  /// What was held back, when no more ids come.
  AnswerPiece finish();

  /// A stop string was found in the content; the content ends before it.
  bool stopped() const { return stops_.stopped(); }

  const std::string& content() const { return content_; }
  /// The thoughts, or nothing where thoughts aren't split off or there are none.
  std::optional<std::string> reasoning() const;
  const std::vector<ToolCall>& tool_calls() const { return tool_calls_; }
  /// Why something that began like a tool call stayed content, one entry for each.
  const std::vector<std::string>& tool_problems() const { return tool_splitter_.problems(); }

  /// The next id continues a thought, or ends it.
  bool in_thought() const { return splitter_.in_thought(); }
  /// Ids that belong to thoughts, the markers around them included.
  int64_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  void add(AnswerPiece& piece, const ReasoningSplitter::Output& text);
  std::string without_tool_calls(ToolCallSplitter::Output text);

  std::optional<Detokenizer> detokenizer_;
  ReasoningSplitter splitter_;
  ToolCallSplitter tool_splitter_;
  StopStrings stops_;
  std::string content_;
  std::string reasoning_;
  std::vector<ToolCall> tool_calls_;
  int64_t reasoning_tokens_ = 0;
};

}  // namespace llm
