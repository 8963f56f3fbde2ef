// Small JSON files (configs, indexes) as a strict value tree, and text files with a size limit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

struct JsonMember;

/// One JSON value. Integers and other numbers are kept apart; objects keep their order.
struct JsonValue {
  enum class Kind { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  bool boolean = false;
  int64_t integer = 0;  // kInteger: written without fraction and exponent, and fits 64 bits
  double number = 0;    // kInteger and kNumber
  std::string string;
  std::vector<JsonValue> array;
  std::vector<JsonMember> object;

  bool is_null() const { return kind == Kind::kNull; }
  bool is_bool() const { return kind == Kind::kBool; }
  bool is_integer() const { return kind == Kind::kInteger; }
  bool is_number() const { return kind == Kind::kInteger || kind == Kind::kNumber; }
  bool is_string() const { return kind == Kind::kString; }
  bool is_array() const { return kind == Kind::kArray; }
  bool is_object() const { return kind == Kind::kObject; }

  /// The member with this key, or null; null also when this is no object.
  const JsonValue* find(std::string_view key) const;
  /// Like find(), but a member whose value is null counts as absent.
  const JsonValue* find_set(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

/// Deepest nesting that the parsers take, as safetensors' own.
inline constexpr int kMaxJsonDepth = 128;

/// Parses a whole JSON text. Refuses (exit code 2) malformed text, NUL bytes, invalid UTF-8, a key
/// twice in one object, and nesting beyond kMaxJsonDepth; `origin` names the text in messages.
JsonValue parse_json(std::string_view text, const std::string& origin);

/// Reads and parses a JSON file of at most max_bytes.
JsonValue read_json_file(const std::filesystem::path& path, int64_t max_bytes = 64 << 20);

/// Reads a whole text file. Refuses (exit code 2) what isn't a regular file, can't be read, is
/// larger than max_bytes, or holds a NUL byte.
std::string read_text_file(const std::filesystem::path& path, int64_t max_bytes);

/// A short JSON rendering for messages: `"gelu"`, `1e+30`, `an object`.
std::string describe(const JsonValue& value);

/// A name out of a file, made fit for a message: escaped as in JSON, invalid UTF-8 replaced, cut
/// after 120 bytes.
std::string printable(std::string_view text);

/// The text as a JSON string literal, quotes included; invalid UTF-8 becomes U+FFFD.
std::string json_quote(std::string_view text);

}  // namespace llm
