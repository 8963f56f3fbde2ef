#include "terminal_session.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "cli/line_editor.h"
#include "run_llm.h"

namespace llm {
namespace {

constexpr auto kLongest = std::chrono::seconds(30);

winsize size_of(int rows, int columns) {
  winsize size{};
  size.ws_row = static_cast<unsigned short>(rows);
  size.ws_col = static_cast<unsigned short>(columns);
  return size;
}

}  // namespace

bool have_terminals() {
  const int fd = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (fd < 0) return false;
  const bool usable = ::grantpt(fd) == 0 && ::unlockpt(fd) == 0 && ::ptsname(fd) != nullptr &&
                      ::access(::ptsname(fd), R_OK | W_OK) == 0;
  ::close(fd);
  return usable;
}

TerminalSession::TerminalSession(const TerminalCall& call) : screen_(call.rows, call.columns) {
  set_utf8_locale();  // for the screen's wcwidth()
  winsize size = size_of(call.rows, call.columns);
  child_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
  if (child_ < 0) throw std::runtime_error("forkpty");
  if (child_ == 0) {
    ::setenv("TERM", call.term.c_str(), 1);
    std::signal(SIGPIPE, SIG_DFL);
    exec_llm(call.args, call.environment);
  }
}

TerminalSession::~TerminalSession() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  ::close(terminal_);
}

void TerminalSession::type(std::string_view bytes) {
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  while (!bytes.empty() && std::chrono::steady_clock::now() < deadline) {
    if (!take_output(0)) return;  // else the program could wait for us while we wait for it
    pollfd wanted{terminal_, POLLOUT, 0};
    if (::poll(&wanted, 1, 100) <= 0) continue;
    const ssize_t written = ::write(terminal_, bytes.data(), std::min<size_t>(bytes.size(), 1024));
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void TerminalSession::resize(int rows, int columns) {
  const winsize size = size_of(rows, columns);
  screen_.resize(rows, columns);
  ::ioctl(terminal_, TIOCSWINSZ, &size);
}

void TerminalSession::signal(int number) { ::kill(child_, number); }

/// False at the end of the terminal's output.
bool TerminalSession::take_output(int timeout_ms) {
  pollfd wanted{terminal_, POLLIN, 0};
  if (::poll(&wanted, 1, timeout_ms) <= 0) return true;
  std::array<char, 65536> block;
  const ssize_t got = ::read(terminal_, block.data(), block.size());
  if (got <= 0) return false;
  output_.append(block.data(), static_cast<size_t>(got));
  screen_.write({block.data(), static_cast<size_t>(got)});
  return true;
}

bool TerminalSession::wait_until(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    if (!take_output(100)) return condition();
  }
  return true;
}

bool TerminalSession::shows_at_end(std::string_view text) {
  return wait_until([&] {
    std::string all = screen_.text();
    if (!all.empty()) all.pop_back();  // the newline of the last line
    return all.ends_with(text);
  });
}

bool TerminalSession::shows(std::string_view text) {
  return wait_until([&] { return screen_.text().find(text) != std::string::npos; });
}

int TerminalSession::exit_code() {
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  while (child_ > 0 && std::chrono::steady_clock::now() < deadline) {
    if (::waitpid(child_, &status_, WNOHANG) == child_) {
      child_ = -1;
    } else if (!take_output(20)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  if (child_ > 0) return -1;
  take_output(0);
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

}  // namespace llm
