#include "cli/prompt_input.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/descriptor_io.h"
#include "base/error.h"
#include "cli/output.h"
#include "text/utf8.h"

namespace llm {
namespace {

constexpr size_t kMaxInputBytes = size_t{1} << 30;
constexpr int kNoticeAfterMs = 1000;

/// The bytes of the file, NUL included. A pipe or device works as well as a regular file.
std::string read_file(const char* flag, const std::string& path) {
  std::error_code error;
  if (path == "-") refuse("{} -: expected a file; stdin is read without being named", flag);
  if (std::filesystem::is_directory(path, error)) {
    refuse("{} {}: is a folder, not a file", flag, path);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse("{} {}: {}", flag, path, std::strerror(errno));
  std::string text;
  std::vector<char> block(1 << 16);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    text.append(block.data(), static_cast<size_t>(file.gcount()));
    if (text.size() > kMaxInputBytes) refuse("{} {}: larger than 1 GiB", flag, path);
  }
  if (file.bad()) refuse("{} {}: can't be read", flag, path);
  return text;
}

void wait_with_notice(const char* noun, const Log& log) {
  if (stdin_is_terminal()) {
    log.info("reading text from the terminal: end it with Ctrl-D on a line of its own");
    return;
  }
  pollfd wanted = {STDIN_FILENO, POLLIN, 0};
  if (::poll(&wanted, 1, kNoticeAfterMs) == 0) {
    log.info("waiting for the {} on stdin (end it with end-of-file; `< /dev/null` for none)", noun);
  }
}

std::string read_stdin(const char* noun, const Log& log) {
  wait_with_notice(noun, log);
  std::string text;
  std::vector<char> block(1 << 16);
  while (true) {
    const ssize_t got = read_some(STDIN_FILENO, block.data(), block.size());
    if (got == 0) return text;
    if (got < 0) refuse("stdin: {}", std::strerror(errno));
    text.append(block.data(), static_cast<size_t>(got));
    if (text.size() > kMaxInputBytes) refuse("stdin: more than 1 GiB");
  }
}

void drop_one_newline(std::string& text) {
  if (!text.ends_with('\n')) return;
  text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
}

/// Digits of a \x or \u escape at the beginning of `rest`, or nothing.
std::optional<uint32_t> hex_digits(std::string_view rest, size_t count) {
  if (rest.size() < count) return std::nullopt;
  uint32_t value = 0;
  const char* end = rest.data() + count;
  const auto [stop, error] = std::from_chars(rest.data(), end, value, 16);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

std::optional<char> simple_escape(char letter) {
  switch (letter) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case '\\':
    case '"':
    case '\'':
      return letter;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string unescape(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      result += text[i];
      continue;
    }
    const char letter = text[i + 1];
    const size_t digits = letter == 'x' ? 2 : 4;
    const bool hex = letter == 'x' || letter == 'u';
    const auto value = hex ? hex_digits(text.substr(i + 2), digits) : std::nullopt;
    const bool surrogate = value && *value >= 0xd800 && *value < 0xe000;
    if (const auto simple = simple_escape(letter)) {
      result += *simple;
      i += 1;
    } else if (value && letter == 'x') {
      result += static_cast<char>(*value);
      i += 1 + digits;
    } else if (value && !surrogate) {
      append_utf8(result, static_cast<char32_t>(*value));
      i += 1 + digits;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::string read_prompt(const PromptInput& input, const Log& log) {
  const bool only_stdin = input.prompt == "-";
  if (only_stdin && input.file) refuse("`-` reads stdin only: leave out `-` or -f");
  std::vector<std::string> parts;
  if (input.prompt && !only_stdin) {
    parts.push_back(input.escape ? unescape(*input.prompt) : *input.prompt);
  }
  const auto add = [&](std::string text) {
    if (input.drop_newline) drop_one_newline(text);
    parts.push_back(std::move(text));
  };
  if (input.file) add(read_file(input.file_flag, *input.file));
  const bool stdin_too = input.read_stdin && (input.read_terminal || !stdin_is_terminal());
  if (only_stdin || stdin_too) add(read_stdin(input.noun, log));

  std::string prompt;
  for (const std::string& part : parts) {
    if (!prompt.empty() && !part.empty() && !input.raw) prompt += "\n\n";
    prompt += part;
  }
  bool replaced = false;
  prompt = replace_invalid_utf8(prompt, &replaced);
  if (replaced) log.warn("the {} is not valid UTF-8: ill-formed parts became U+FFFD", input.noun);
  return prompt;
}

}  // namespace llm
