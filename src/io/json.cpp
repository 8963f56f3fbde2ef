#include "io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/failed_download.h"
#include "base/files.h"

namespace llm {
namespace {

using Json = nlohmann::json;

/// Builds a JsonValue from parser events; throws on what the parser itself would let pass.
class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit TreeBuilder(const std::string& origin) : origin_(origin) {}

  JsonValue take() { return std::move(root_); }

  bool null() override { return put({}); }
  bool boolean(bool x) override {
    JsonValue v;
    v.kind = JsonValue::Kind::kBool;
    v.boolean = x;
    return put(std::move(v));
  }
  bool number_integer(number_integer_t x) override { return put(integer_value(x)); }
  bool number_unsigned(number_unsigned_t x) override {
    if (x <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return put(integer_value(static_cast<int64_t>(x)));
    }
    return number_float(static_cast<double>(x), {});
  }
  bool number_float(number_float_t x, const string_t&) override {
    JsonValue v;
    v.kind = JsonValue::Kind::kNumber;
    v.number = x;
    return put(std::move(v));
  }
  bool string(string_t& x) override {
    JsonValue v;
    v.kind = JsonValue::Kind::kString;
    v.string = std::move(x);
    return put(std::move(v));
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(JsonValue::Kind::kObject); }
  bool start_array(std::size_t) override { return open(JsonValue::Kind::kArray); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& x) override {
    if (!levels_.back().keys.insert(x).second) {
      refuse("{}: the key \"{}\" appears twice in one object", origin_, printable(x));
    }
    levels_.back().key = std::move(x);
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception&) override {
    refuse("{}: not valid JSON at byte {} (near \"{}\")", origin_, position, printable(token));
  }

 private:
  struct Level {
    JsonValue value;
    std::string key;  // of the member being read
    std::unordered_set<std::string> keys;
  };

  static JsonValue integer_value(int64_t x) {
    JsonValue v;
    v.kind = JsonValue::Kind::kInteger;
    v.integer = x;
    v.number = static_cast<double>(x);
    return v;
  }

  bool open(JsonValue::Kind kind) {
    if (levels_.size() >= static_cast<size_t>(kMaxJsonDepth)) {
      refuse("{}: JSON nested deeper than {} levels", origin_, kMaxJsonDepth);
    }
    levels_.emplace_back();
    levels_.back().value.kind = kind;
    return true;
  }

  bool close() {
    JsonValue done = std::move(levels_.back().value);
    levels_.pop_back();
    return put(std::move(done));
  }

  bool put(JsonValue value) {
    if (levels_.empty()) {
      root_ = std::move(value);
    } else if (Level& top = levels_.back(); top.value.is_array()) {
      top.value.array.push_back(std::move(value));
    } else {
      top.value.object.push_back({std::move(top.key), std::move(value)});
    }
    return true;
  }

  const std::string& origin_;
  JsonValue root_;
  std::vector<Level> levels_;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  for (const auto& [name, value] : object) {
    if (name == key) return &value;
  }
  return nullptr;
}

const JsonValue* JsonValue::find_set(std::string_view key) const {
  const JsonValue* value = find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

JsonValue parse_json(std::string_view text, const std::string& origin) {
  // The library takes a NUL byte for the end of the text and would ignore what follows.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    refuse("{}: not valid JSON: NUL byte at byte {}", origin, nul);
  }
  TreeBuilder builder(origin);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

JsonValue read_json_file(const std::filesystem::path& path, int64_t max_bytes) {
  const std::string text = read_text_file(path, max_bytes);
  refuse_failed_download(text, "JSON", path.string());
  return parse_json(text, path.string());
}

std::string read_text_file(const std::filesystem::path& path, int64_t max_bytes) {
  std::string text = read_file(path, max_bytes);
  if (const size_t nul = text.find('\0'); nul != std::string::npos) {
    refuse("{}: not a text file: NUL byte at byte {}", path.string(), nul);
  }
  return text;
}

std::string describe(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBool:
      return value.boolean ? "true" : "false";
    case JsonValue::Kind::kInteger:
      return std::to_string(value.integer);
    case JsonValue::Kind::kNumber:
      return fmt::format("{}", value.number);
    case JsonValue::Kind::kString:
      return fmt::format("\"{}\"", printable(value.string));
    case JsonValue::Kind::kArray:
      return fmt::format("a list of {}", value.array.size());
    case JsonValue::Kind::kObject:
      return "an object";
  }
  return {};
}

std::string printable(std::string_view text) {
  constexpr size_t kLimit = 120;
  const auto is_continuation = [&](size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
  };
  size_t end = std::min(text.size(), kLimit);
  // Don't cut through a character.
  while (end < text.size() && end > kLimit - 4 && is_continuation(end)) --end;
  const std::string quoted = json_quote(text.substr(0, end));
  return quoted.substr(1, quoted.size() - 2) + (end < text.size() ? "..." : "");
}

std::string json_quote(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace llm
