// How far long work is, for whoever watches a terminal.
#pragma once

#include <cstddef>
#include <string_view>

namespace llm {

/// A line of stderr that each show() replaces and the end clears; nothing at all where stderr is
/// no terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool wanted);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Plain ASCII without control characters.
  void show(std::string_view text);
  /// Before something else is written to the terminal.
  void clear();

 private:
  bool on_;
  size_t width_ = 0;  // of what stands there
};

}  // namespace llm
