#include "text/tool_calls.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "text/held_text.h"
#include "text/value.h"

namespace llm {
namespace {

constexpr std::string_view kOpen = "<tool_call>";
constexpr std::string_view kClose = "</tool_call>";
constexpr std::string_view kBlank = " \t\r\n";

/// The value of a JSON text that the scanner found well-formed; nothing where that isn't enough
/// (half of a surrogate pair).
std::optional<Value> value_of(std::string_view json) {
  try {
    return parse_json_value(json, "tool call");
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_object(std::string_view json) {
  const std::optional<Value> value = value_of(json);
  return value && value->is_dict();
}

/// Reads the object's members into `call`. Returns what is wrong, or nothing.
std::optional<std::string> read_call(std::string_view json,
                                     const std::vector<JsonObjectScanner::Member>& members,
                                     ToolCall& call) {
  std::string_view arguments = "{}";
  std::optional<Value> name;
  for (const JsonObjectScanner::Member& m : members) {
    const auto key = value_of(json.substr(m.key_begin, m.key_end - m.key_begin));
    const std::string_view value = json.substr(m.value_begin, m.value_end - m.value_begin);
    if (!key) return "half of a surrogate pair";
    if (key->as_string() == "name") name = value_of(value);
    if (key->as_string() == "arguments") arguments = value;
  }
  if (!name || !name->is_string() || name->as_string().empty()) return "there is no \"name\"";
  call.name = name->as_string();
  const std::optional<Value> parsed = value_of(arguments);
  if (parsed && parsed->is_dict()) {
    call.arguments = arguments;
  } else if (parsed && parsed->is_string() && is_object(parsed->as_string())) {
    call.arguments = parsed->as_string();
  } else if (parsed && parsed->is_none()) {
    call.arguments = "{}";
  } else {
    return "its \"arguments\" are no JSON object";
  }
  return std::nullopt;
}

}  // namespace

ToolCallSplitter::Output ToolCallSplitter::push(std::string_view text) {
  held_ += text;
  Output out;
  while (step(out)) {
  }
  return out;
}

ToolCallSplitter::Output ToolCallSplitter::finish() {
  Output out = push("");
  while (state_ != State::kText) {
    if (state_ == State::kClose) {
      end_call(out, held_.size());
    } else {
      leave_call_as_text(out, "the answer ends before its JSON does");
    }
    while (step(out)) {
    }
  }
  if (!after_call_ || size_without_newlines(held_) > 0) emit(out, held_.size());
  held_.clear();
  return out;
}

/// Decides what it can about the held text; true when there may be more to decide.
bool ToolCallSplitter::step(Output& out) {
  switch (state_) {
    case State::kText:
      return step_text(out);
    case State::kCall:
      return step_call(out);
    case State::kClose:
      return step_close(out);
  }
  return false;
}

bool ToolCallSplitter::step_text(Output& out) {
  if (!active_) {
    emit(out, held_.size());
    return false;
  }
  const size_t open = held_.find(kOpen);
  const bool opens = open != std::string::npos;
  const size_t end = opens ? open : held_.size() - partial_marker(held_, kOpen);
  emit(out, size_without_newlines(std::string_view(held_).substr(0, end)));
  if (opens) begin_call(held_.find(kOpen));
  return opens;
}

/// Moves the first `bytes` of the held text to the content.
void ToolCallSplitter::emit(Output& out, size_t bytes) {
  if (bytes == 0) return;
  const bool leads = after_call_ && !any_content_;
  const size_t begin = leads ? std::min(held_.find_first_not_of('\n'), bytes) : 0;
  out.content.append(held_, begin, bytes - begin);
  held_.erase(0, bytes);
  any_content_ = true;
  after_call_ = false;
}

void ToolCallSplitter::begin_call(size_t newlines) {
  state_ = State::kCall;
  json_begin_ = scanned_ = newlines + kOpen.size();
  scanner_ = JsonObjectScanner();
}

bool ToolCallSplitter::step_call(Output& out) {
  while (scanned_ < held_.size()) {
    switch (scanner_.push(held_[scanned_++])) {
      case JsonObjectScanner::Status::kMore:
        break;
      case JsonObjectScanner::Status::kDone:
        state_ = State::kClose;
        return true;
      case JsonObjectScanner::Status::kBroken:
        leave_call_as_text(out, "no JSON object follows");
        return true;
    }
  }
  return false;
}

bool ToolCallSplitter::step_close(Output& out) {
  const size_t begin = held_.find_first_not_of(kBlank, scanned_);
  if (begin == std::string::npos) return false;
  const std::string_view rest = std::string_view(held_).substr(begin);
  if (rest.starts_with(kClose)) {
    end_call(out, begin + kClose.size());
    return true;
  }
  if (kClose.starts_with(rest)) return false;
  leave_call_as_text(out, "something else than </tool_call> follows its JSON");
  return true;
}

/// The held text up to `end` is a call, unless its JSON says something else.
void ToolCallSplitter::end_call(Output& out, size_t end) {
  ToolCall call;
  const std::string_view json = std::string_view(held_).substr(json_begin_, scanned_ - json_begin_);
  if (auto problem = read_call(json, scanner_.members(), call)) {
    return leave_call_as_text(out, *std::move(problem));
  }
  out.calls.push_back(std::move(call));
  held_.erase(0, end);
  state_ = State::kText;
  after_call_ = true;
}

/// The marker becomes text, and what follows it is looked at anew.
void ToolCallSplitter::leave_call_as_text(Output& out, std::string problem) {
  problems_.push_back(std::move(problem));
  state_ = State::kText;
  emit(out, json_begin_);
}

}  // namespace llm
