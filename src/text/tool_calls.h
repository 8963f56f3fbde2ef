// Takes tool calls out of an answer while it streams.
//
// The form is that of Qwen and of the models that learned from it, any number of times:
//   <tool_call>
//   {"name": "get_weather", "arguments": {"city": "Paris"}}
//   </tool_call>
// - What lies between the markers decides whether it is a call: one JSON object with a name and,
//   if there are any, arguments that are an object (or a string that holds one). Markers inside of
//   its strings mean nothing.
// - Anything else stays in the text, markers included, and is a problem to report.
// - An object that is complete when the answer ends is a call even without </tool_call>.
// - Newlines around calls are no part of the text, except between text and text.
// Text is given out as soon as it is certain, so newlines are held back until something follows.
// The joined output doesn't depend on how the answer was cut into pieces.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_scanner.h"

namespace llm {

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON text of an object, byte for byte as the model wrote it

  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

class ToolCallSplitter {
 public:
  struct Output {
    std::string content;
    std::vector<ToolCall> calls;
  };

  /// Not active: all text is content.
  explicit ToolCallSplitter(bool active) : active_(active) {}

  Output push(std::string_view text);
  /// The end of the answer: what was still held back.
  Output finish();

  /// Why a <tool_call> stayed text, one entry for each that did.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  enum class State {
    kText,
    kCall,   // after <tool_call>, in its JSON
    kClose,  // after the JSON, before </tool_call>
  };

  bool step(Output& out);
  bool step_text(Output& out);
  bool step_call(Output& out);
  bool step_close(Output& out);
  void emit(Output& out, size_t bytes);
  void begin_call(size_t newlines);
  void end_call(Output& out, size_t end);
  void leave_call_as_text(Output& out, std::string problem);

  bool active_;
  State state_ = State::kText;
  std::string held_;  // not yet decided; in a call all of it, from the newlines before it on
  bool any_content_ = false;
  bool after_call_ = false;  // nothing but newlines since the last call

  size_t json_begin_ = 0;  // in held_
  size_t scanned_ = 0;     // held_ up to here has been looked at
  JsonObjectScanner scanner_;
  std::vector<std::string> problems_;
};

}  // namespace llm
