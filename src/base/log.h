// Messages for the person at the terminal. Everything here goes to stderr; results go to stdout.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace llm {

/// Writes bytes to stderr as they are. Errors are ignored: where nobody can read a message, nobody
/// misses it.
void write_stderr(std::string_view bytes);

/// The text with control characters other than line ends and tabs, and bytes that aren't UTF-8, as
/// \xHH, so that a terminal shows them instead of obeying them. For whatever echoes input.
std::string escape_controls(std::string_view text);

enum class Verbosity { kQuiet, kNormal, kVerbose };

/// Passed by reference to whatever may speak. Thread-safe line by line.
class Log {
 public:
  explicit Log(Verbosity verbosity = Verbosity::kNormal) : verbosity_(verbosity) {}

  Verbosity verbosity() const { return verbosity_; }

  /// Something the user should know although work goes on. Printed unless quiet.
  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    if (verbosity_ != Verbosity::kQuiet) {
      write("warning: ", fmt::format(format, std::forward<Args>(args)...));
    }
  }
  /// One line of information. Printed unless quiet.
  template <typename... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    if (verbosity_ != Verbosity::kQuiet) {
      write("", fmt::format(format, std::forward<Args>(args)...));
    }
  }
  /// Printed with --verbose only.
  template <typename... Args>
  void detail(fmt::format_string<Args...> format, Args&&... args) const {
    if (verbosity_ == Verbosity::kVerbose) {
      write("", fmt::format(format, std::forward<Args>(args)...));
    }
  }

 private:
  static void write(std::string_view prefix, std::string_view message);

  Verbosity verbosity_;
};

}  // namespace llm
