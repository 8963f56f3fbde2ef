#include "cli/tokenize_jsonl.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "base/descriptor_io.h"
#include "base/thread_pool.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "io/json.h"
#include "text/utf8.h"

namespace llm {
namespace {

constexpr size_t kLinesPerTask = 16;

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
  return fmt::format("{{\"ids\":[{}]}}",
                     fmt::join(tokenizer.encode_prompt(text.string, recognised), ","));
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

namespace {

/// A line's answer, with its line end unless the line was blank.
struct Answer {
  std::string text;
  bool failed = false;
  bool replaced = false;  // ill-formed UTF-8
};

Answer answer_to(std::string_view line, int64_t number, const Tokenizer& tokenizer,
                 const OtherLines& others) {
  Answer answer;
  if (is_blank(line)) return answer;
  std::string repaired;
  if (!is_valid_utf8(line)) line = repaired = replace_invalid_utf8(line, &answer.replaced);
  try {
    std::optional<std::string> other = others(line);
    answer.text = other ? *std::move(other) : tokenize_jsonl_line(line, tokenizer);
  } catch (const Error& error) {
    answer.text = fmt::format("{{\"error\":{},\"line\":{}}}", json_quote(error.what()), number);
    answer.failed = true;
  }
  answer.text += '\n';
  return answer;
}

/// Answers lines on all threads, started when there is first more than a task's worth.
class Answerer {
 public:
  Answerer(const Tokenizer& tokenizer, const OtherLines& others)
      : tokenizer_(tokenizer), others_(others) {}

  std::vector<Answer> answer(const std::vector<std::string_view>& lines, int64_t lines_before) {
    std::vector<Answer> answers(lines.size());
    const size_t num_tasks = (lines.size() + kLinesPerTask - 1) / kLinesPerTask;
    const auto task = [&](int64_t index, int) {
      const size_t begin = static_cast<size_t>(index) * kLinesPerTask;
      for (size_t i = begin; i < std::min(begin + kLinesPerTask, lines.size()); ++i) {
        const int64_t number = lines_before + static_cast<int64_t>(i) + 1;
        answers[i] = answer_to(lines[i], number, tokenizer_, others_);
      }
    };
    if (num_tasks > 1) {
      if (!pool_) pool_.emplace(allowed_threads());
      pool_->parallel_for(static_cast<int64_t>(num_tasks), task);
    } else {
      task(0, 0);
    }
    return answers;
  }

 private:
  const Tokenizer& tokenizer_;
  const OtherLines& others_;
  std::optional<ThreadPool> pool_;
};

}  // namespace

ExitCode tokenize_jsonl(const std::string& file, const Tokenizer& tokenizer,
                        const OtherLines& others, const Log& log) {
  LineReader reader("--jsonl", file);
  Answerer answerer(tokenizer, others);
  ExitCode result = ExitCode::kOk;
  bool any_replaced = false;
  int64_t number = 0;
  for (std::vector<std::string_view> lines; reader.next(lines);) {
    std::string out;
    for (const Answer& answer : answerer.answer(lines, number)) {
      out += answer.text;
      any_replaced |= answer.replaced;
      if (answer.failed) result = ExitCode::kFailed;
    }
    number += static_cast<int64_t>(lines.size());
    // At once: whoever waits for these answers may be who writes the next line.
    write_stdout(out);
  }
  if (any_replaced) log.warn("--jsonl {}: ill-formed UTF-8 became U+FFFD", file);
  return result;
}

}  // namespace llm
