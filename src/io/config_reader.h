// Typed, bounded access to the keys of a config file, with messages that name key and value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace llm {

/// Reads members of one JSON object. A member that is absent or null counts as not set; a wrong
/// type or a number outside its bounds is refused (exit code 2).
class ConfigReader {
 public:
  /// `origin` names the file, and the place inside it, in messages. Refuses what isn't an object.
  ConfigReader(const JsonValue& object, std::string origin);

  bool has(std::string_view key) const { return object_->find_set(key) != nullptr; }
  /// The key is there, and null.
  bool is_null(std::string_view key) const {
    const JsonValue* value = object_->find(key);
    return value != nullptr && value->is_null();
  }
  const JsonValue* find(std::string_view key) const { return object_->find_set(key); }
  const std::string& origin() const { return origin_; }

  std::optional<int64_t> integer(std::string_view key, int64_t min, int64_t max) const;
  int64_t required_integer(std::string_view key, int64_t min, int64_t max) const;
  /// Inclusive bounds; NaN and infinities are out of any.
  std::optional<double> number(std::string_view key, double min, double max) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> string(std::string_view key) const;
  /// A token id or a list of them ("eos_token_id"); empty when not set.
  std::vector<int32_t> token_ids(std::string_view key) const;

  /// Refuses with "ORIGIN: KEY is VALUE, expected EXPECTED".
  [[noreturn]] void refuse_value(std::string_view key, const JsonValue& value,
                                 std::string_view expected) const;

 private:
  const JsonValue* object_;
  std::string origin_;
};

}  // namespace llm
