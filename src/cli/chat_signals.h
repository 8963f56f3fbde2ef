// Signals of a chat on a terminal: Ctrl-C ends an answer and not the process.
#pragma once

#include <csignal>
#include <optional>
#include <vector>

namespace llm {

/// While one lives, SIGINT is noted rather than obeyed, unless it was ignored before. There can be
/// only one at a time. Noted signals wait in a pipe, so that poll() sees them whichever thread took
/// them.
class ChatSignals {
 public:
  ChatSignals();
  ~ChatSignals();
  ChatSignals(const ChatSignals&) = delete;
  ChatSignals& operator=(const ChatSignals&) = delete;

  /// Readable while signals wait.
  int wake_fd() const;

  /// The next noted signal, or nothing.
  std::optional<int> take();

  /// Takes all that wait; true if an interrupt was among them.
  bool take_interrupt();

  /// While one lives, these signals are noted too: a terminal in editing mode must be put back in
  /// order before a process stops or ends.
  class Scope {
   public:
    explicit Scope(const std::vector<int>& signals);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    struct Saved {
      int signal;
      struct sigaction action;
    };
    std::vector<Saved> saved_;
  };

 private:
  std::optional<Scope> interrupt_;
};

}  // namespace llm
