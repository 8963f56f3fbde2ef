// Python's operators on template values.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/code_points.h"
#include "text/jinja_builtins.h"

namespace llm::jinja {

namespace {

[[noreturn]] void refuse_operands(std::string_view op, const Value& a, const Value& b) {
  if (a.is_undefined()) throw ValueError(a.undefined_hint());
  if (b.is_undefined()) throw ValueError(b.undefined_hint());
  if (op == "+" && a.is_string()) {
    throw ValueError(fmt::format("can only concatenate str (not \"{}\") to str", b.type_name()));
  }
  throw ValueError(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", op,
                               a.type_name(), b.type_name()));
}

[[noreturn]] void refuse_overflow() {
  throw ValueError("an integer of the template leaves the range of 64 bits");
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) throw ValueError("integer division or modulo by zero");
  if (a == INT64_MIN && b == -1) refuse_overflow();
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) refuse_overflow();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) refuse_overflow();
  }
  return result;
}

Value integer_operation(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+") {
    if (__builtin_add_overflow(a, b, &result)) refuse_overflow();
  } else if (op == "-") {
    if (__builtin_sub_overflow(a, b, &result)) refuse_overflow();
  } else if (op == "*") {
    if (__builtin_mul_overflow(a, b, &result)) refuse_overflow();
  } else if (op == "//") {
    result = floor_divide(a, b);
  } else if (op == "%") {
    if (b == 0) throw ValueError("integer modulo by zero");
    result = b == -1 ? 0 : a - b * floor_divide(a, b);
  } else if (op == "/") {
    if (b == 0) throw ValueError("division by zero");
    // Python rounds the quotient once: both numbers must be exact before.
    return Value(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
  } else {
    if (b < 0) return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
    result = integer_power(a, b);
  }
  return Value(result);
}

double float_modulo(double a, double b) {
  if (b == 0) throw ValueError("float modulo");
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

Value float_operation(std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") return Value(std::pow(a, b));
  if (op == "%") return Value(float_modulo(a, b));
  if (b == 0)
    throw ValueError(op == "/" ? "float division by zero" : "float floor division by zero");
  return Value(op == "/" ? a / b : std::floor(a / b));
}

bool is_plain_list(const Value& value) {
  return value.is_list() && value.as_list().kind <= ListKind::kTuple;
}

Value add_lists(const Value& a, const Value& b) {
  List sum = a.as_list();
  const auto& more = b.as_list().items;
  sum.items.insert(sum.items.end(), more.begin(), more.end());
  return Value(std::move(sum));
}

Value repeat_value(const Value& value, int64_t n) {
  if (value.is_string()) return Value(repeat(value.as_text(), n));
  List result = value.as_list();
  const std::vector<Value> items = std::exchange(result.items, {});
  const auto count = static_cast<int64_t>(items.size());
  if (n > 0 && count > static_cast<int64_t>(kMaxListItems) / n) {
    throw ValueError("a list of the template grows too large");
  }
  for (int64_t i = 0; i < n; ++i)
    result.items.insert(result.items.end(), items.begin(), items.end());
  return Value(std::move(result));
}

}  // namespace

Value binary_operation(std::string_view op, const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return integer_operation(op, a.as_int(), b.as_int());
  if (a.is_big_int() || b.is_big_int()) {
    if (a.is_number() && b.is_number() && !a.is_float() && !b.is_float()) refuse_overflow();
  }
  if (a.is_number() && b.is_number()) return float_operation(op, a.as_float(), b.as_float());
  if (op == "+" && a.is_string() && b.is_string()) {
    Text text = a.as_text();
    text.append(b.as_text());
    return Value(std::move(text));
  }
  if (op == "+" && is_plain_list(a) && is_plain_list(b) && a.as_list().kind == b.as_list().kind) {
    return add_lists(a, b);
  }
  if (op == "*" && b.is_integer() && (a.is_string() || is_plain_list(a))) {
    return repeat_value(a, b.as_int());
  }
  if (op == "*" && a.is_integer() && (b.is_string() || is_plain_list(b))) {
    return repeat_value(b, a.as_int());
  }
  if (op == "%" && a.is_string()) return Value(percent_format(a.as_text(), b));
  refuse_operands(op, a, b);
}

Value negate(const Value& value) {
  if (value.is_float()) return Value(-value.as_float());
  if (value.is_integer()) return integer_operation("-", 0, value.as_int());
  if (value.is_big_int()) {
    const std::string& digits = value.as_big_int();
    return Value::big_int(digits[0] == '-' ? digits.substr(1) : "-" + digits);
  }
  if (value.is_undefined()) throw ValueError(value.undefined_hint());
  throw ValueError(fmt::format("bad operand type for unary -: '{}'", value.type_name()));
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (container.is_string()) {
    if (!item.is_string()) {
      throw ValueError(
          fmt::format("'in <string>' requires string as left operand, not {}", item.type_name()));
    }
    budget.charge(static_cast<int64_t>(container.as_text().size() / 64));
    return container.as_string().find(item.as_string()) != std::string::npos;
  }
  if (container.is_dict()) return container.as_dict().find_value(item) != nullptr;
  if (container.is_undefined()) return false;
  if (!container.is_list()) {
    throw ValueError(fmt::format("argument of type '{}' is not iterable", container.type_name()));
  }
  if (container.as_list().kind == ListKind::kKeys) Dict().find_value(item);  // must be hashable
  for (const Value& candidate : container.as_list().items) {
    if (equals(candidate, item, budget)) return true;
  }
  return false;
}

bool compare_operation(std::string_view op, const Value& a, const Value& b, Budget& budget) {
  if (op == "==") return equals(a, b, budget);
  if (op == "!=") return !equals(a, b, budget);
  if (op == "in") return contains(b, a, budget);
  if (op == "not in") return !contains(b, a, budget);
  const bool is_nan =
      (a.is_float() && std::isnan(a.as_float())) || (b.is_float() && std::isnan(b.as_float()));
  const int order = compare(a, b, op, budget);
  if (is_nan) return false;
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  return op == ">" ? order > 0 : order >= 0;
}

namespace {

/// Indices that Python's slice visits in a sequence of `count` items.
struct SliceRange {
  int64_t start = 0;
  int64_t end = 0;
  int64_t step = 1;
  int64_t count = 0;
};

SliceRange slice_range(int64_t count, const Value& start, const Value& stop, const Value& step) {
  const auto integer = [](const Value& value, int64_t fallback) {
    if (value.is_none()) return fallback;
    if (!value.is_integer()) {
      throw ValueError("slice indices must be integers or None");
    }
    return std::clamp<int64_t>(value.as_int(), -INT64_MAX / 4, INT64_MAX / 4);
  };
  SliceRange range;
  range.step = integer(step, 1);
  if (range.step == 0) throw ValueError("slice step cannot be zero");
  const bool forward = range.step > 0;
  const int64_t lowest = forward ? 0 : -1;
  const int64_t highest = forward ? count : count - 1;
  const auto bound = [&](const Value& value, int64_t fallback) {
    if (value.is_none()) return fallback;
    const int64_t i = integer(value, 0);
    return std::clamp(i < 0 ? i + count : i, lowest, highest);
  };
  range.start = bound(start, forward ? 0 : count - 1);
  range.end = bound(stop, forward ? count : -1);
  const int64_t span = forward ? range.end - range.start : range.start - range.end;
  const int64_t stride = forward ? range.step : -range.step;
  range.count = span > 0 ? (span - 1) / stride + 1 : 0;
  return range;
}

/// Byte positions where characters begin, and the end.
std::vector<size_t> character_starts(std::string_view text) {
  std::vector<size_t> starts;
  for (size_t pos = 0; pos < text.size(); pos += code_point_at(text, pos).length) {
    starts.push_back(pos);
  }
  starts.push_back(text.size());
  return starts;
}

Value slice_text(const Text& text, const Value& start, const Value& stop, const Value& step) {
  const std::vector<size_t> starts = character_starts(text.view());
  const SliceRange range = slice_range(static_cast<int64_t>(starts.size()) - 1, start, stop, step);
  const auto byte_at = [&](int64_t i) { return starts[static_cast<size_t>(i)]; };
  if (range.step == 1) {
    return Value(text.slice(byte_at(range.start), byte_at(range.start + range.count)));
  }
  Text result;
  for (int64_t n = 0; n < range.count; ++n) {
    const int64_t i = range.start + n * range.step;
    result.append_range(text, byte_at(i), byte_at(i + 1));
  }
  return Value(std::move(result));
}

}  // namespace

Value slice(const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (value.is_undefined()) throw ValueError(value.undefined_hint());
  const auto part = [](const Value& v) { return v.is_undefined() ? Value::none() : v; };
  if (value.is_string()) return slice_text(value.as_text(), part(start), part(stop), part(step));
  if (!value.is_list() || value.as_list().kind > ListKind::kRange) {
    throw ValueError(fmt::format("'{}' object is not subscriptable", value.type_name()));
  }
  const List& list = value.as_list();
  const SliceRange range =
      slice_range(static_cast<int64_t>(list.items.size()), part(start), part(stop), part(step));
  List result;
  result.kind = list.kind;
  result.origin = list.origin;
  if (list.kind == ListKind::kRange) {
    result.range_start = list.range_start + range.start * list.range_step;
    result.range_stop = list.range_start + range.end * list.range_step;
    result.range_step = list.range_step * range.step;
  }
  for (int64_t n = 0; n < range.count; ++n) {
    result.items.push_back(list.items[static_cast<size_t>(range.start + n * range.step)]);
  }
  return Value(std::move(result));
}

std::optional<Text> character_at(const Text& text, int64_t index) {
  const std::string_view bytes = text.view();
  size_t pos = index < 0 ? bytes.size() : 0;
  for (int64_t i = index; i < 0; ++i) {
    if (pos == 0) return std::nullopt;
    pos = previous_code_point(bytes, pos);
  }
  for (int64_t i = 0; i < index && pos < bytes.size(); ++i) pos += code_point_at(bytes, pos).length;
  if (pos >= bytes.size()) return std::nullopt;
  return text.slice(pos, pos + code_point_at(bytes, pos).length);
}

std::vector<Value> iterate(const Value& value) {
  if (value.is_list()) return value.as_list().items;
  std::vector<Value> items;
  if (value.is_dict()) {
    for (const auto& [key, item] : value.as_dict().entries()) items.push_back(key);
    return items;
  }
  if (value.is_string()) {
    const std::vector<size_t> starts = character_starts(value.as_text().view());
    if (starts.size() > kMaxListItems) throw ValueError("the text is too long to loop over");
    for (size_t i = 0; i + 1 < starts.size(); ++i) {
      items.push_back(Value(value.as_text().slice(starts[i], starts[i + 1])));
    }
    return items;
  }
  if (value.is_undefined()) return items;
  throw ValueError(fmt::format("'{}' object is not iterable", value.type_name()));
}

int64_t length_of(const Value& value) {
  if (value.is_string()) return static_cast<int64_t>(count_code_points(value.as_string()));
  if (value.is_dict()) return static_cast<int64_t>(value.as_dict().size());
  if (value.is_undefined()) return 0;
  if (value.is_list() && value.as_list().kind != ListKind::kGenerator) {
    return static_cast<int64_t>(value.as_list().items.size());
  }
  throw ValueError(fmt::format("object of type '{}' has no len()", value.type_name()));
}

}  // namespace llm::jinja
