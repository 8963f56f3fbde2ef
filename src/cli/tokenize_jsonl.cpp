#include "cli/tokenize_jsonl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <string_view>
#include <vector>

#include "cli/output.h"
#include "io/json.h"
#include "text/utf8.h"

namespace llm {
namespace {

constexpr size_t kOutputBlock = 1 << 16;

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
  return fmt::format("{{\"ids\":[{}]}}", fmt::join(tokenizer.encode(text.string, recognised), ","));
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

ExitCode tokenize_jsonl(const std::string& file, const Tokenizer& tokenizer, const Log& log) {
  std::ifstream opened;
  if (file != "-") {
    if (std::filesystem::is_directory(file)) refuse("--jsonl {}: is a folder, not a file", file);
    opened.open(file, std::ios::binary);
    if (!opened) refuse("--jsonl {}: {}", file, std::strerror(errno));
  }
  std::istream& in = file == "-" ? std::cin : opened;

  ExitCode result = ExitCode::kOk;
  bool any_replaced = false;
  std::string out;
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (is_blank(line)) continue;
    bool replaced = false;
    if (!is_valid_utf8(line)) line = replace_invalid_utf8(line, &replaced);
    any_replaced |= replaced;
    try {
      out += tokenize_jsonl_line(line, tokenizer);
    } catch (const Error& error) {
      out += fmt::format("{{\"error\":{},\"line\":{}}}", json_quote(error.what()), number);
      result = ExitCode::kFailed;
    }
    out += '\n';
    if (out.size() >= kOutputBlock) {
      write_stdout(out);
      out.clear();
    }
  }
  if (in.bad()) fail("--jsonl {}: can't be read", file);
  write_stdout(out);
  if (any_replaced) log.warn("--jsonl {}: ill-formed UTF-8 became U+FFFD", file);
  return result;
}

}  // namespace llm
