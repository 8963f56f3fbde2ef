#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace llm {
namespace {

[[noreturn]] void fail_stdout(int error) {
  if (error == EPIPE) throw Error(ExitCode::kClosedPipe, "");
  fail("can't write to stdout: {}", std::strerror(error));
}

}  // namespace

void write_stdout(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_stdout(errno);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void flush_stdout() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) fail_stdout(errno != 0 ? errno : EIO);
}

bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }
bool stdin_is_terminal() { return ::isatty(STDIN_FILENO) == 1; }

}  // namespace llm
