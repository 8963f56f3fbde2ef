#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/descriptor_io.h"
#include "base/error.h"

namespace llm {
namespace {

[[noreturn]] void fail_stdout(int error) {
  if (error == EPIPE) throw Error(ExitCode::kClosedPipe, "");
  fail("can't write to stdout: {}", std::strerror(error));
}

}  // namespace

void write_stdout(std::string_view bytes) {
  const int error = write_all(STDOUT_FILENO, bytes);
  if (error != 0) fail_stdout(error);
}

void flush_stdout() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) fail_stdout(errno != 0 ? errno : EIO);
}

bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }
bool stdin_is_terminal() { return ::isatty(STDIN_FILENO) == 1; }

}  // namespace llm
