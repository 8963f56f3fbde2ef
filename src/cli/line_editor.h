// Line editing on a terminal, with history and bracketed paste.
#pragma once

#include <memory>

#include "cli/chat_history.h"
#include "cli/chat_signals.h"
#include "cli/line_source.h"

namespace llm {

/// Sets a UTF-8 LC_CTYPE for the process, which editing needs; false where the system has none.
bool set_utf8_locale();

/// Emacs keys. A pasted text is inserted whole, newlines included; Alt-Enter inserts a newline.
class LineEditor : public LineSource {
 public:
  /// Edits on the descriptor `out`, a terminal. The signals outlive the editor. There can be only
  /// one editor at a time on a terminal.
  LineEditor(int out, ChatSignals& signals, ChatHistory history);
  ~LineEditor() override;

  Line read(std::string_view prompt) override;
  void remember(const std::string& entry) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llm
