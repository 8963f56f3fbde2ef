// For tests: a child process that may take only so much more memory than it has.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace llm {

/// Runs `body` with 100 MB more; the exit code that it returns, or -1 if it was killed.
template <typename Body>
int exit_code_within_100_mb(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    std::ifstream statm("/proc/self/statm");
    uint64_t pages = 0;
    statm >> pages;
    const rlim_t limit = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + 100'000'000;
    const rlimit bound{limit, limit};
    setrlimit(RLIMIT_AS, &bound);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace llm
