// Runs the built program in a pseudo-terminal, as a person at a keyboard does.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "vt_screen.h"

namespace llm {

struct TerminalCall {
  std::vector<std::string> args;           // after "llm"
  std::string term = "xterm-256color";     // $TERM
  std::vector<std::string> environment{};  // "NAME=value" beside the test's own
  int rows = 24;
  int columns = 80;
};

/// Every wait ends after half a minute at most, and the program with the session.
class TerminalSession {
 public:
  explicit TerminalSession(const TerminalCall& call);
  ~TerminalSession();
  TerminalSession(const TerminalSession&) = delete;
  TerminalSession& operator=(const TerminalSession&) = delete;

  /// Bytes as from the keyboard.
  void type(std::string_view bytes);
  void resize(int rows, int columns);
  void signal(int number);

  /// Waits until the screen ends in this text (blanks at its end aside); false if it doesn't come.
  bool shows_at_end(std::string_view text);
  /// Waits until this text is somewhere in all that was shown.
  bool shows(std::string_view text);
  /// Waits until something holds that the program does elsewhere.
  bool wait_until(const std::function<bool()>& condition);
  /// Waits for the end of the program: its exit code, or 128 + signal; -1 if it goes on.
  int exit_code();

  const VtScreen& screen() const { return screen_; }
  /// All bytes that came.
  const std::string& output() const { return output_; }

 private:
  bool take_output(int timeout_ms);

  int terminal_ = -1;
  pid_t child_ = -1;
  int status_ = 0;
  VtScreen screen_;
  std::string output_;
};

/// Whether this machine gives pseudo-terminals; some containers and chroots have no /dev/pts.
bool have_terminals();

}  // namespace llm

/// First statement of a test that needs a TerminalSession.
#define LLM_SKIP_WITHOUT_TERMINAL(name)                   \
  do {                                                    \
    if (!::llm::have_terminals()) {                       \
      ::llm::skip_test(name, "a pseudo-terminal", false); \
      return;                                             \
    }                                                     \
  } while (false)
