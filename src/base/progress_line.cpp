#include "base/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/log.h"

namespace llm {

ProgressLine::ProgressLine(bool wanted) : on_(wanted && ::isatty(STDERR_FILENO) == 1) {}

void ProgressLine::show(std::string_view text) {
  if (!on_) return;
  write_stderr(fmt::format("\r{:{}} ", text, width_));
  width_ = text.size();
}

void ProgressLine::clear() {
  if (width_ > 0) write_stderr(fmt::format("\r{:{}}\r", "", width_ + 1));
  width_ = 0;
}

}  // namespace llm
