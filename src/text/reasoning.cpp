#include "text/reasoning.h"

#include <algorithm>
#include <utility>

#include "text/held_text.h"

namespace llm {

namespace {

constexpr std::string_view kOpen = "<think>";
constexpr std::string_view kClose = "</think>";
constexpr std::string_view kBlank = " \t\r\n";

}  // namespace

ReasoningStart reasoning_start(std::string_view prompt, bool model_thinks) {
  if (!model_thinks) return ReasoningStart::kOff;
  const size_t last = prompt.find_last_not_of(kBlank);
  const std::string_view text =
      last == std::string_view::npos ? std::string_view() : prompt.substr(0, last + 1);
  if (text.ends_with(kClose)) return ReasoningStart::kClosed;
  return text.ends_with(kOpen) ? ReasoningStart::kInThought : ReasoningStart::kMayBegin;
}

ReasoningSplitter::ReasoningSplitter(ReasoningStart start)
    : state_(start == ReasoningStart::kOff         ? State::kContent
             : start == ReasoningStart::kInThought ? State::kThoughtStart
                                                   : State::kBefore),
      drop_stray_close_(start == ReasoningStart::kClosed) {}

ReasoningSplitter::Output ReasoningSplitter::push(std::string_view text) {
  held_ += text;
  Output out;
  while (step(out)) {
  }
  return out;
}

ReasoningSplitter::Output ReasoningSplitter::finish() {
  Output out = push("");
  if (state_ == State::kBefore) out.content += held_;
  if (state_ == State::kThought) {
    out.reasoning.append(held_, 0, size_without_newlines(held_));
  }
  held_.clear();
  return out;
}

/// Decides what it can about the held text; true when the state changed and there may be more.
bool ReasoningSplitter::step(Output& out) {
  switch (state_) {
    case State::kBefore:
      return step_before();
    case State::kThoughtStart:
      return skip_newlines(State::kThought);
    case State::kThought:
      return step_thought(out);
    case State::kContentStart:
      return skip_newlines(State::kContent);
    case State::kContent:
      out.content += std::exchange(held_, "");
      return false;
  }
  return false;
}

bool ReasoningSplitter::step_before() {
  const size_t begin = held_.find_first_not_of(kBlank);
  if (begin == std::string::npos) return false;
  const std::string_view rest = std::string_view(held_).substr(begin);
  const auto meets = [&](std::string_view marker, State next) {
    if (!rest.starts_with(marker)) return false;
    held_.erase(0, begin + marker.size());
    state_ = next;
    return true;
  };
  if (meets(kOpen, State::kThoughtStart)) return true;
  if (drop_stray_close_ && meets(kClose, State::kContentStart)) return true;
  const bool undecided = kOpen.starts_with(rest) || (drop_stray_close_ && kClose.starts_with(rest));
  if (undecided) return false;
  state_ = State::kContent;
  return true;
}

bool ReasoningSplitter::skip_newlines(State next) {
  held_.erase(0, std::min(held_.find_first_not_of('\n'), held_.size()));
  if (held_.empty()) return false;
  state_ = next;
  return true;
}

bool ReasoningSplitter::step_thought(Output& out) {
  const size_t close = held_.find(kClose);
  const bool closed = close != std::string::npos;
  const size_t end = closed ? close : held_.size() - partial_marker(held_, kClose);
  const size_t certain = size_without_newlines(std::string_view(held_).substr(0, end));
  out.reasoning.append(held_, 0, certain);
  held_.erase(0, closed ? close + kClose.size() : certain);
  if (closed) state_ = State::kContentStart;
  return closed;
}

}  // namespace llm
