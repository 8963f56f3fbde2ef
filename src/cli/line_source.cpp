#include "cli/line_source.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/descriptor_io.h"
#include "base/error.h"
#include "cli/output.h"
#include "text/utf8.h"

namespace llm {
namespace {

constexpr std::string_view kPrompt = "> ";
constexpr std::string_view kMorePrompt = ". ";
constexpr std::string_view kBlockMark = "\"\"\"";
constexpr size_t kMaxLineBytes = size_t{64} << 20;

/// The text after the mark that opens a block, or nothing.
bool opens_block(std::string_view text, std::string_view& rest) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos || !text.substr(begin).starts_with(kBlockMark)) return false;
  rest = text.substr(begin + kBlockMark.size());
  return true;
}

/// Takes the closing mark, and blanks after it, off the end.
bool closes_block(std::string& text) {
  const size_t end = text.find_last_not_of(" \t\r");
  if (end == std::string::npos) return false;
  if (!std::string_view(text).substr(0, end + 1).ends_with(kBlockMark)) return false;
  text.resize(end + 1 - kBlockMark.size());
  return true;
}

/// Reads on until the block that begins with `text` closes.
Line read_block(LineSource& lines, std::string text) {
  Line block{.kind = Line::Kind::kText, .is_message = true};
  while (!closes_block(text)) {
    block.text += text + "\n";
    Line next = lines.read(kMorePrompt);
    if (next.kind != Line::Kind::kText) return next;
    text = std::move(next.text);
  }
  block.text += text;
  // The marks may stand on lines of their own.
  if (block.text.starts_with('\n')) block.text.erase(0, 1);
  if (block.text.ends_with('\n')) block.text.pop_back();
  return block;
}

}  // namespace

PlainLines::Wait PlainLines::wait() const {
  if (signals_ == nullptr) return Wait::kInput;
  while (true) {
    if (signals_->take_interrupt()) return Wait::kInterrupted;
    std::array<pollfd, 2> fds = {pollfd{STDIN_FILENO, POLLIN, 0},
                                 pollfd{signals_->wake_fd(), POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), -1) > 0 && fds[0].revents != 0) return Wait::kInput;
  }
}

Line PlainLines::take(size_t length) {
  std::string text = buffer_.substr(0, length);
  buffer_.erase(0, length + 1);  // the newline too
  if (text.ends_with('\r')) text.pop_back();
  bool replaced = false;
  text = replace_invalid_utf8(text, &replaced);
  if (replaced) log_->warn("a line is not valid UTF-8: ill-formed parts became U+FFFD");
  return {.kind = Line::Kind::kText, .text = std::move(text)};
}

Line PlainLines::read(std::string_view prompt) {
  if (show_prompts_) write_stdout(prompt);
  std::array<char, 1 << 16> block;
  size_t searched = 0;
  while (true) {
    if (const size_t end = buffer_.find('\n', searched); end != std::string::npos) return take(end);
    searched = buffer_.size();
    if (wait() == Wait::kInterrupted) {
      buffer_.clear();
      if (show_prompts_) write_stdout("\n");
      return {.kind = Line::Kind::kInterrupted};
    }
    const ssize_t got = read_some(STDIN_FILENO, block.data(), block.size());
    if (got < 0) fail("stdin: {}", std::strerror(errno));
    if (got == 0) {
      if (buffer_.empty()) {
        if (show_prompts_) write_stdout("\n");
        return {.kind = Line::Kind::kEnd};
      }
      return take(buffer_.size());  // the last line has no newline
    }
    buffer_.append(block.data(), static_cast<size_t>(got));
    if (buffer_.size() > kMaxLineBytes) fail("stdin: a line of more than 64 MiB");
  }
}

Line read_typed_message(LineSource& lines) {
  Line line = lines.read(kPrompt);
  if (line.kind != Line::Kind::kText) return line;
  std::string_view rest;
  if (opens_block(line.text, rest)) return read_block(lines, std::string(rest));
  if (line.text.find('\n') != std::string::npos) {
    line.is_message = true;
    return line;
  }
  while (line.text.ends_with('\\')) {
    line.text.back() = '\n';
    line.is_message = true;
    const Line next = lines.read(kMorePrompt);
    if (next.kind != Line::Kind::kText) return next;
    line.text += next.text;
  }
  return line;
}

}  // namespace llm
