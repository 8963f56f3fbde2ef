// Splits an answer into thought and content while it streams.
//
// The rule, for models that write their thoughts as <think>...</think>:
// - Where the answer starts depends on the prompt: inside a thought if the prompt ends in an open
//   <think>, otherwise at the place where a thought may begin.
// - There (and only there) white space followed by <think> opens a thought; anything else means
//   that the answer has no thought, and all of it, white space included, is content. Text after
//   that is never split again: an answer that explains "<think>" keeps it.
// - Where the prompt closed a thought already, a stray </think> at that place is dropped too.
// - Newlines around the thought are no part of it: all "\n" after <think> and before </think> go.
// - Newlines right after </think> are no part of the content: all of them go.
// - A thought that is still open when the answer ends stays a thought, without the newlines at its
//   end.
// Both texts are given out as early as they are certain, and joined they don't depend on how the
// answer was cut into pieces.
#pragma once

#include <string>
#include <string_view>

namespace llm {

/// What the prompt left behind.
enum class ReasoningStart {
  kOff,        // no thoughts: everything is content, nothing is split off
  kMayBegin,   // the answer may begin with <think>
  kInThought,  // the prompt ends inside an open <think>
  kClosed,     // the prompt ends after </think> (thinking switched off)
};

/// Reads the state off the end of a rendered prompt: what follows the last <think> or </think>
/// there must be white space. `model_thinks`: the vocabulary has both markers.
ReasoningStart reasoning_start(std::string_view prompt, bool model_thinks);

class ReasoningSplitter {
 public:
  struct Output {
    std::string reasoning;
    std::string content;
  };

  explicit ReasoningSplitter(ReasoningStart start);

  Output push(std::string_view text);
  /// The end of the answer: what was still held back.
  Output finish();

  /// Inside a thought, so far as the text pushed tells.
  bool in_thought() const { return state_ == State::kThoughtStart || state_ == State::kThought; }

 private:
  enum class State {
    kBefore,        // nothing but white space so far
    kThoughtStart,  // newlines before the thought's text
    kThought,
    kContentStart,  // newlines before the content
    kContent,
  };

  bool step(Output& out);
  bool step_before();
  bool step_thought(Output& out);
  bool skip_newlines(State next);

  State state_;
  bool drop_stray_close_;
  std::string held_;  // not yet decided
};

}  // namespace llm
