// Jinja's filters: the table's entry point, and filters on any value and on numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>

#include "text/code_points.h"
#include "text/jinja_builtins.h"

namespace llm::jinja {

namespace {

using I = Interpreter&;
using V = const Value&;
using A = const Args&;

Value default_filter(I, V value, A args) {
  const BoundArgs bound("default", args, {"default_value", "boolean"});
  const bool replaced = value.is_undefined() || (bound.flag(1, false) && !value.truthy());
  if (!replaced) return value;
  return bound.get(0) != nullptr ? *bound.get(0) : Value("");
}

std::optional<std::string> json_indent(const Value* indent) {
  if (indent == nullptr || indent->is_none()) return std::nullopt;
  if (indent->is_string()) return indent->as_string();
  constexpr int64_t kMaxIndent = 1000;
  if (!indent->is_integer() || indent->as_int() > kMaxIndent) {
    throw ValueError("tojson(): 'indent' must be a small integer or a string");
  }
  return std::string(static_cast<size_t>(std::max<int64_t>(indent->as_int(), 0)), ' ');
}

/// transformers' own tojson: json.dumps without escapes for HTML or non-ASCII.
Value tojson(I, V value, A args) {
  const BoundArgs bound("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  if (value.is_undefined()) throw ValueError("Object of type Undefined is not JSON serializable");
  JsonFormat format;
  format.ensure_ascii = bound.flag(0, false);
  format.sort_keys = bound.flag(3, false);
  format.indent = json_indent(bound.get(1));
  if (format.indent) format.item_separator = Text(",");
  if (const Value* separators = bound.get(2); separators != nullptr && !separators->is_none()) {
    const std::vector<Value> pair = iterate(*separators);
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      throw ValueError("tojson(): 'separators' must be two strings");
    }
    format.item_separator = pair[0].as_text();
    format.key_separator = pair[1].as_text();
  }
  return Value(to_json(value, format));
}

Value string_filter(I, V value, A args) {
  BoundArgs("string", args, {});
  return Value(to_text(value));
}

/// Without autoescape a marked-safe string behaves as any other.
Value safe(I, V value, A args) {
  BoundArgs("safe", args, {});
  return value.is_string() ? value : Value(to_text(value));
}

Value length(I, V value, A args) {
  BoundArgs("length", args, {});
  return Value(length_of(value));
}

Value attr(I interpreter, V value, A args) {
  const BoundArgs bound("attr", args, {"name"});
  if (value.is_dict() && find_method(value, bound.text(0, "").str()) == nullptr) {
    return Value::undefined(
        fmt::format("'dict object' has no attribute '{}'", bound.text(0, "").str()));
  }
  return interpreter.get_attribute(value, bound.text(0, "").str());
}

/// What int() and float() read. Unlike strip() they don't take U+001C to U+001F for blanks.
std::string number_text(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    const bool is_blank = c.value > 0x7f && is_python_space(c.value);
    plain += is_blank ? " " : text.substr(i, c.length);
    i += c.length;
  }
  const Text blanks(" \t\n\v\f\r");
  std::string digits = strip(Text(plain), &blanks, true, true).str();
  std::erase(digits, '_');
  return digits;
}

/// Python's int(text, base); nothing where it raises.
std::optional<Value> parse_int(const std::string& text, int64_t base) {
  const std::string digits = number_text(text);
  if (digits.empty() || base < 2 || base > 36) return std::nullopt;
  const bool has_sign = digits[0] == '-' || digits[0] == '+';
  const std::string body = digits.substr(has_sign ? 1 : 0);
  const bool has_prefix =
      body.size() > 2 && body[0] == '0' &&
      ((base == 16 && (body[1] | 0x20) == 'x') || (base == 8 && (body[1] | 0x20) == 'o') ||
       (base == 2 && (body[1] | 0x20) == 'b'));
  const std::string plain = has_prefix ? body.substr(2) : body;
  if (plain.empty() || plain[0] == '-' || plain[0] == '+') return std::nullopt;
  errno = 0;
  char* end = nullptr;
  const long long value = std::strtoll(plain.c_str(), &end, static_cast<int>(base));
  if (*end != '\0') return std::nullopt;
  if (errno == ERANGE) return Value::big_int((digits[0] == '-' ? "-" : "") + plain);
  return Value(int64_t{digits[0] == '-' ? -value : value});
}

/// Python's float(text); nothing where it raises.
std::optional<double> parse_float(const std::string& text) {
  const std::string digits = number_text(text);
  if (digits.empty() || digits.find_first_of("xXpP(") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(digits.c_str(), &end);
  return *end == '\0' ? std::optional(value) : std::nullopt;
}

/// Python's int(value); nothing for NaN.
std::optional<Value> truncate_to_int(double value) {
  if (std::isnan(value)) return std::nullopt;
  if (std::isinf(value)) throw ValueError("cannot convert float infinity to integer");
  if (std::abs(value) < 9.2e18) return Value(static_cast<int64_t>(value));
  return Value::big_int(fmt::format("{:.0f}", value));
}

Value int_filter(I, V value, A args) {
  const BoundArgs bound("int", args, {"default", "base"});
  std::optional<Value> result;
  if (value.is_string()) {
    result = parse_int(value.as_string(), bound.integer(1, 10));
    if (!result) {
      if (const auto number = parse_float(value.as_string())) result = truncate_to_int(*number);
    }
  } else if (value.is_float()) {
    result = truncate_to_int(value.as_float());
  } else if (value.is_integer()) {
    result = Value(value.as_int());
  } else if (value.is_big_int()) {
    result = value;
  } else if (value.is_undefined()) {
    throw ValueError(value.undefined_hint());
  }
  if (result) return *result;
  return bound.get(0) != nullptr ? *bound.get(0) : Value(0);
}

Value float_filter(I, V value, A args) {
  const BoundArgs bound("float", args, {"default"});
  std::optional<double> result;
  if (value.is_string()) result = parse_float(value.as_string());
  if (value.is_number()) result = value.as_float();
  if (value.is_undefined()) throw ValueError(value.undefined_hint());
  if (result) return Value(*result);
  return bound.get(0) != nullptr ? *bound.get(0) : Value(0.0);
}

Value abs_filter(I, V value, A args) {
  BoundArgs("abs", args, {});
  if (value.is_float()) return Value(std::abs(value.as_float()));
  if (value.is_number() && value.as_float() >= 0) {
    return value.is_bool() ? Value(value.as_int()) : value;
  }
  if (value.is_number()) return negate(value);
  if (value.is_undefined()) throw ValueError(value.undefined_hint());
  throw ValueError(fmt::format("bad operand type for abs(): '{}'", value.type_name()));
}

/// Python's round(): the decimal text rounds exactly, ties to even.
double round_to(double value, int64_t precision) {
  if (precision < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / scale) * scale;
  }
  const std::string text = fmt::format("{:.{}f}", value, static_cast<int>(precision));
  return std::strtod(text.c_str(), nullptr);
}

Value round_filter(I, V value, A args) {
  const BoundArgs bound("round", args, {"precision", "method"});
  const int64_t precision = bound.integer(0, 0);
  const std::string method = bound.text(1, "common").str();
  if (method != "common" && method != "ceil" && method != "floor") {
    throw ValueError("method must be common, ceil or floor");
  }
  if (value.is_undefined()) throw ValueError(value.undefined_hint());
  if (!value.is_number() || std::abs(precision) > 300) {
    throw ValueError(fmt::format("can't round a value of type '{}'", value.type_name()));
  }
  if (method == "common") {
    if (!value.is_float() && precision >= 0) return value.is_bool() ? Value(value.as_int()) : value;
    const double rounded = round_to(value.as_float(), precision);
    return value.is_float() ? Value(rounded) : Value(static_cast<int64_t>(rounded));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.as_float() * scale;
  const double whole = (method == "ceil" ? std::ceil(scaled) : std::floor(scaled));
  return Value((whole + 0.0) / scale);  // a whole number has no negative zero
}

const std::unordered_map<std::string_view, Filter>& filters() {
  static const std::unordered_map<std::string_view, Filter> kFilters = {
      {"abs", abs_filter},       {"attr", attr},
      {"count", length},         {"d", default_filter},
      {"float", float_filter},   {"default", default_filter},
      {"int", int_filter},       {"length", length},
      {"round", round_filter},   {"safe", safe},
      {"string", string_filter}, {"tojson", tojson},
  };
  return kFilters;
}

}  // namespace

Filter find_filter(std::string_view name) {
  if (const auto it = filters().find(name); it != filters().end()) return it->second;
  if (const Filter filter = find_text_filter(name)) return filter;
  return find_sequence_filter(name);
}

}  // namespace llm::jinja
