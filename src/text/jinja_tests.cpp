// Jinja's tests: `x is NAME`.
#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

#include "text/code_points.h"
#include "text/jinja_builtins.h"

namespace llm::jinja {

namespace {

const Value& only_argument(std::string_view test, const Args& args) {
  if (args.positional.size() != 1 || !args.named.empty()) {
    throw ValueError(fmt::format("the test '{}' takes one argument", test));
  }
  return args.positional[0];
}

/// value % divisor == rest, of whatever has a remainder.
bool has_remainder(Interpreter& interpreter, const Value& value, const Value& divisor, int rest) {
  return equals(binary_operation("%", value, divisor), Value(rest), interpreter.budget());
}

/// str.isupper() and str.islower(): has cased characters, and none of the other case.
bool all_cased(const Value& value, bool upper) {
  const Text text = to_text(value);
  bool any = false;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = code_point_at(text.view(), pos);
    pos += c.length;
    if (!is_cased(c.value)) continue;
    any = true;
    const bool is_upper = to_lower(c.value) != c.value;
    if (is_upper != upper) return false;
  }
  return any;
}

bool is_iterable(const Value& value) {
  return value.is_string() || value.is_list() || value.is_dict() || value.is_undefined();
}

bool is_sequence(const Value& value) {
  const bool is_indexed = value.is_list() && value.as_list().kind <= ListKind::kRange;
  return value.is_string() || is_indexed || value.is_dict() || value.is_undefined();
}

template <char kFirst, char kSecond = 0>
bool compare_test(Interpreter& interpreter, const Value& input, const Args& args) {
  constexpr char kOp[] = {kFirst, kSecond, 0};
  return compare_operation(kOp, input, only_argument(kOp, args), interpreter.budget());
}

using I = Interpreter&;
using V = const Value&;
using A = const Args&;

bool test_in(Interpreter& interpreter, const Value& input, const Args& args) {
  return contains(only_argument("in", args), input, interpreter.budget());
}

bool test_callable(I, V v, A) {
  if (v.is_undefined()) return true;  // Jinja's Undefined has a __call__, which raises
  return v.is_object() && dynamic_cast<const Callable*>(v.as_object().get()) != nullptr;
}

const std::unordered_map<std::string_view, Test>& tests() {
  static const std::unordered_map<std::string_view, Test> kTests = {
      {"defined", [](I, V v, A) { return !v.is_undefined(); }},
      {"undefined", [](I, V v, A) { return v.is_undefined(); }},
      {"none", [](I, V v, A) { return v.is_none(); }},
      {"boolean", [](I, V v, A) { return v.is_bool(); }},
      {"true", [](I, V v, A) { return v.is_bool() && v.as_bool(); }},
      {"false", [](I, V v, A) { return v.is_bool() && !v.as_bool(); }},
      {"integer", [](I, V v, A) { return v.is_int() || v.is_big_int(); }},
      {"float", [](I, V v, A) { return v.is_float(); }},
      {"number", [](I, V v, A) { return v.is_number(); }},
      {"string", [](I, V v, A) { return v.is_string(); }},
      {"mapping", [](I, V v, A) { return v.is_dict(); }},
      {"iterable", [](I, V v, A) { return is_iterable(v); }},
      {"sequence", [](I, V v, A) { return is_sequence(v); }},
      {"callable", test_callable},
      {"lower", [](I, V v, A) { return all_cased(v, false); }},
      {"upper", [](I, V v, A) { return all_cased(v, true); }},
      {"odd", [](I i, V v, A) { return has_remainder(i, v, Value(2), 1); }},
      {"even", [](I i, V v, A) { return has_remainder(i, v, Value(2), 0); }},
      {"divisibleby",
       [](I i, V v, A args) { return has_remainder(i, v, only_argument("divisibleby", args), 0); }},
      {"sameas", [](I, V v, A args) { return v.same_as(only_argument("sameas", args)); }},
      {"escaped", [](I, V, A) { return false; }},
      {"filter", [](I, V v, A) { return v.is_string() && find_filter(v.as_string()) != nullptr; }},
      {"test", [](I, V v, A) { return v.is_string() && find_test(v.as_string()) != nullptr; }},
      {"in", test_in},
      {"eq", compare_test<'=', '='>},
      {"==", compare_test<'=', '='>},
      {"equalto", compare_test<'=', '='>},
      {"ne", compare_test<'!', '='>},
      {"!=", compare_test<'!', '='>},
      {"lt", compare_test<'<'>},
      {"<", compare_test<'<'>},
      {"lessthan", compare_test<'<'>},
      {"le", compare_test<'<', '='>},
      {"<=", compare_test<'<', '='>},
      {"gt", compare_test<'>'>},
      {">", compare_test<'>'>},
      {"greaterthan", compare_test<'>'>},
      {"ge", compare_test<'>', '='>},
      {">=", compare_test<'>', '='>},
  };
  return kTests;
}

}  // namespace

bool test_takes_argument(std::string_view name) {
  static const std::unordered_set<std::string_view> kNames = {
      "divisibleby", "sameas",   "in", "eq", "==", "equalto", "ne",          "!=", "lt",
      "<",           "lessthan", "le", "<=", "gt", ">",       "greaterthan", "ge", ">="};
  return kNames.contains(name);
}

Test find_test(std::string_view name) {
  const auto it = tests().find(name);
  return it == tests().end() ? nullptr : it->second;
}

}  // namespace llm::jinja
