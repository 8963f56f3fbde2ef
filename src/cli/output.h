// Results on stdout. Everything else goes to stderr through base/log.h.
#pragma once

#include <string_view>

namespace llm {

/// Writes all bytes to stdout at once, past stdio's buffer, so that a reader sees them now. Throws
/// Error: exit code 141 without a message when the reader has closed the pipe, 1 for any other
/// write error (full disk).
void write_stdout(std::string_view bytes);

/// Flushes what was printed through stdio, with write_stdout's errors.
void flush_stdout();

bool stdout_is_terminal();
bool stderr_is_terminal();
bool stdin_is_terminal();

}  // namespace llm
