#include "cli/tokenize_jsonl.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <vector>

#include "base/descriptor_io.h"
#include "cli/output.h"
#include "io/json.h"
#include "text/utf8.h"

namespace llm {
namespace {

constexpr size_t kInputBlock = 1 << 16;

/// The lines of a file ("-": stdin), each as soon as it is there.
class LineReader {
 public:
  explicit LineReader(const std::string& file) : file_(file) {
    if (file == "-") return;
    fd_ = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) refuse("--jsonl {}: {}", file, std::strerror(errno));
  }
  ~LineReader() {
    if (fd_ != STDIN_FILENO) ::close(fd_);
  }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// False at the end. The last line needs no line end.
  bool next(std::string& line) {
    line.clear();
    while (true) {
      const size_t end = block_.find('\n', begin_);
      line.append(block_, begin_, end - begin_);
      if (end != std::string::npos) {
        begin_ = end + 1;
        return true;
      }
      begin_ = 0;
      if (!read_block()) return !line.empty();
    }
  }

 private:
  bool read_block() {
    block_.resize(kInputBlock);
    const ssize_t got = read_some(fd_, block_.data(), block_.size());
    if (got < 0 && errno == EISDIR) refuse("--jsonl {}: is a folder, not a file", file_);
    if (got < 0) fail("--jsonl {}: {}", file_, std::strerror(errno));
    block_.resize(static_cast<size_t>(got));
    return got > 0;
  }

  std::string file_;
  int fd_ = STDIN_FILENO;
  std::string block_;  // its bytes from begin_ on are not yet in a line
  size_t begin_ = 0;
};

void check_keys(const JsonValue& request, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : request.object) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      refuse("unknown key \"{}\"; known here: {}", printable(key), fmt::join(known, ", "));
    }
  }
}

/// Absent and null mean `otherwise`.
bool flag(const JsonValue& request, std::string_view key, bool otherwise) {
  const JsonValue* value = request.find_set(key);
  if (value == nullptr) return otherwise;
  if (!value->is_bool()) refuse("\"{}\": expected true or false, found {}", key, describe(*value));
  return value->boolean;
}

std::string encode_request(const JsonValue& request, const Tokenizer& tokenizer) {
  check_keys(request, {"text", "special", "plain"});
  const JsonValue& text = *request.find("text");
  if (!text.is_string()) refuse("\"text\": expected a string, found {}", describe(text));
  AddedTokens recognised =
      flag(request, "special", true) ? AddedTokens::kAll : AddedTokens::kNonSpecial;
  if (flag(request, "plain", false)) recognised = AddedTokens::kNone;
  return fmt::format("{{\"ids\":[{}]}}", fmt::join(tokenizer.encode_prompt(text.string, recognised), ","));
}

std::string decode_request(const JsonValue& request, const Tokenizer& tokenizer) {
  check_keys(request, {"ids", "skip_special"});
  const JsonValue& list = *request.find("ids");
  if (!list.is_array()) refuse("\"ids\": expected a list, found {}", describe(list));
  std::vector<int32_t> ids;
  for (const JsonValue& id : list.array) {
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
    if (!id.is_integer() || id.integer < 0 || id.integer > kMax) {
      refuse("\"ids\"[{}]: expected a whole number from 0 to {}, found {}", ids.size(), kMax,
             describe(id));
    }
    ids.push_back(static_cast<int32_t>(id.integer));
  }
  return fmt::format("{{\"text\":{}}}",
                     json_quote(tokenizer.decode(ids, flag(request, "skip_special", false))));
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

std::string tokenize_jsonl_line(std::string_view line, const Tokenizer& tokenizer) {
  const JsonValue request = parse_json(line, "request");
  if (!request.is_object()) refuse("expected an object, found {}", describe(request));
  const bool has_text = request.find("text") != nullptr;
  if (has_text == (request.find("ids") != nullptr)) {
    refuse("expected either \"text\" or \"ids\"");
  }
  return has_text ? encode_request(request, tokenizer) : decode_request(request, tokenizer);
}

ExitCode tokenize_jsonl(const std::string& file, const Tokenizer& tokenizer,
                        const ChatLines& chat_lines, const Log& log) {
  LineReader lines(file);
  ExitCode result = ExitCode::kOk;
  bool any_replaced = false;
  int64_t number = 0;
  for (std::string line; lines.next(line);) {
    ++number;
    if (is_blank(line)) continue;
    bool replaced = false;
    if (!is_valid_utf8(line)) line = replace_invalid_utf8(line, &replaced);
    any_replaced |= replaced;
    std::string answer;
    try {
      std::optional<std::string> chat = chat_lines.answer(line);
      answer = chat ? *std::move(chat) : tokenize_jsonl_line(line, tokenizer);
    } catch (const Error& error) {
      answer = fmt::format("{{\"error\":{},\"line\":{}}}", json_quote(error.what()), number);
      result = ExitCode::kFailed;
    }
    // At once: whoever waits for this answer may be who writes the next line, and an interrupt
    // loses nothing.
    write_stdout(answer += '\n');
  }
  if (any_replaced) log.warn("--jsonl {}: ill-formed UTF-8 became U+FFFD", file);
  return result;
}

}  // namespace llm
