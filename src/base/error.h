// Errors that a user sees, and checks for our own bugs.
//
// An Error carries the exit code of the command-line contract. Its message names what was wrong,
// where (file, tensor, line, flag), what was expected and what to do.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace llm {

enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,   // failed after work had begun (also a write error)
  kRefused = 2,  // refused before any work: command line, unusable file, model or template
  kInterrupted = 130,
  kClosedPipe = 141,
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Throws an Error with exit code 2: the input can't be used and no work was done.
template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ExitCode::kRefused, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws an Error with exit code 1: something failed while working.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ExitCode::kFailed, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws std::logic_error naming the caller's place: a broken promise between our own parts.
[[noreturn]] void bug(const char* condition, const std::string& detail,
                      const char* file = __builtin_FILE(), int line = __builtin_LINE());

}  // namespace llm

/// Checks what our own code must guarantee; stays on in release builds.
#define LLM_CHECK(condition, ...)                          \
  do {                                                     \
    if (!(condition)) [[unlikely]] {                       \
      ::llm::bug(#condition, fmt::format("" __VA_ARGS__)); \
    }                                                      \
  } while (false)
