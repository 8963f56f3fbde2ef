#include "cli/chat_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace llm {
namespace {

// A handler has no other way to learn where to write: the pipe's ends, or -1.
std::atomic<int> g_pipe_read{-1};
std::atomic<int> g_pipe_write{-1};
static_assert(std::atomic<int>::is_always_lock_free);

void note_signal(int signal) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(signal);
  // A full pipe has signals enough.
  static_cast<void>(!::write(g_pipe_write, &byte, 1));
  errno = saved;
}

}  // namespace

ChatSignals::Scope::Scope(const std::vector<int>& signals) {
  for (const int signal : signals) {
    Saved saved{signal, {}};
    ::sigaction(signal, nullptr, &saved.action);
    if (saved.action.sa_handler == SIG_IGN) continue;
    struct sigaction noted {};
    noted.sa_handler = note_signal;
    noted.sa_flags = SA_RESTART;
    ::sigaction(signal, &noted, nullptr);
    saved_.push_back(saved);
  }
}

ChatSignals::Scope::~Scope() {
  for (const Saved& saved : saved_) ::sigaction(saved.signal, &saved.action, nullptr);
}

ChatSignals::ChatSignals() {
  LLM_CHECK(g_pipe_write < 0, "two at a time");
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) fail("pipe: {}", std::strerror(errno));
  g_pipe_read = ends[0];
  g_pipe_write = ends[1];
  interrupt_.emplace(std::vector<int>{SIGINT});
}

ChatSignals::~ChatSignals() {
  interrupt_.reset();
  ::close(g_pipe_write.exchange(-1));
  ::close(g_pipe_read.exchange(-1));
}

int ChatSignals::wake_fd() const { return g_pipe_read; }

std::optional<int> ChatSignals::take() {
  unsigned char signal = 0;
  if (::read(g_pipe_read, &signal, 1) != 1) return std::nullopt;
  return signal;
}

bool ChatSignals::take_interrupt() {
  bool interrupted = false;
  while (const std::optional<int> signal = take()) interrupted |= *signal == SIGINT;
  return interrupted;
}

}  // namespace llm
