#include "io/config_reader.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/error.h"

namespace llm {

ConfigReader::ConfigReader(const JsonValue& object, std::string origin)
    : object_(&object), origin_(std::move(origin)) {
  if (!object.is_object()) {
    refuse("{}: expected a JSON object, found {}", origin_, describe(object));
  }
}

std::optional<int64_t> ConfigReader::integer(std::string_view key, int64_t min, int64_t max) const {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_integer() || value->integer < min || value->integer > max) {
    refuse_value(key, *value, fmt::format("a whole number from {} to {}", min, max));
  }
  return value->integer;
}

int64_t ConfigReader::required_integer(std::string_view key, int64_t min, int64_t max) const {
  const std::optional<int64_t> value = integer(key, min, max);
  if (!value) refuse("{}: the key \"{}\" is missing", origin_, key);
  return *value;
}

std::optional<double> ConfigReader::number(std::string_view key, double min, double max) const {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !(value->number >= min && value->number <= max)) {
    refuse_value(key, *value, fmt::format("a number from {} to {}", min, max));
  }
  return value->number;
}

std::optional<bool> ConfigReader::boolean(std::string_view key) const {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) refuse_value(key, *value, "true or false");
  return value->boolean;
}

std::optional<std::string> ConfigReader::string(std::string_view key) const {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse_value(key, *value, "a string");
  return value->string;
}

std::vector<int32_t> ConfigReader::token_ids(std::string_view key) const {
  const JsonValue* value = find(key);
  if (value == nullptr) return {};
  std::vector<int32_t> ids;
  const auto add = [&](const JsonValue& id) {
    if (!id.is_integer() || id.integer < 0 || id.integer > std::numeric_limits<int32_t>::max()) {
      refuse_value(key, id, "a token id or a list of them");
    }
    ids.push_back(static_cast<int32_t>(id.integer));
  };
  if (value->is_array()) {
    for (const JsonValue& id : value->array) add(id);
  } else {
    add(*value);
  }
  return ids;
}

void ConfigReader::refuse_value(std::string_view key, const JsonValue& value,
                                std::string_view expected) const {
  refuse("{}: \"{}\" is {}, expected {}", origin_, key, describe(value), expected);
}

}  // namespace llm
