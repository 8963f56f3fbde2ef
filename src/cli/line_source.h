// Where the lines of a chat come from, and how lines become messages.
#pragma once

#include <string>
#include <string_view>

#include "base/log.h"
#include "cli/chat_signals.h"

namespace llm {

/// What reading gave.
struct Line {
  enum class Kind {
    kText,
    kEnd,          // end of input
    kInterrupted,  // Ctrl-C; what was typed is dropped
  };
  Kind kind = Kind::kText;
  std::string text = {};    // valid UTF-8, without the newline that ended it
  bool is_message = false;  // a block or a pasted text: never a command
};

class LineSource {
 public:
  virtual ~LineSource() = default;
  /// Prompts, where anyone sees it, and waits for a line.
  virtual Line read(std::string_view prompt) = 0;
  /// Adds what the person entered to the history, where there is one.
  virtual void remember(const std::string&) {}
};

/// Lines of a pipe, a file, or a terminal that can't move its cursor.
class PlainLines : public LineSource {
 public:
  /// With signals, reading notices interrupts. Prompts are written to stdout if `show_prompts`.
  PlainLines(ChatSignals* signals, bool show_prompts, const Log& log)
      : signals_(signals), show_prompts_(show_prompts), log_(&log) {}

  Line read(std::string_view prompt) override;

 private:
  enum class Wait { kInput, kInterrupted };
  Wait wait() const;
  Line take(size_t length);

  ChatSignals* signals_;
  bool show_prompts_;
  const Log* log_;
  std::string buffer_;  // read and not yet handed out
};

/// Reads one message a person typed: a line that ends in a backslash goes on in the next one, and
/// a line that begins with """ opens a block that ends with a line that ends with """. A pasted
/// text, which has several lines at once, is taken as it is.
Line read_typed_message(LineSource& lines);

}  // namespace llm
