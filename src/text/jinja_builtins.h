// Operators, filters, tests, methods and global functions of Jinja and of the Python values that
// templates handle. All throw ValueError; whoever calls them knows the place.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja_runtime.h"

namespace llm::jinja {

// Operators (jinja_operators.cpp).

/// + - * / // % ** of Python.
Value binary_operation(std::string_view op, const Value& a, const Value& b);
Value negate(const Value& value);
/// Python's `item in container`.
bool contains(const Value& container, const Value& item, Budget& budget);
/// == != < <= > >= in "not in".
bool compare_operation(std::string_view op, const Value& a, const Value& b, Budget& budget);
/// Python's x[start:stop:step]; undefined or none parts are left out.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step);
/// The items that a loop over the value visits; characters of a string, keys of a dict.
std::vector<Value> iterate(const Value& value);
/// Python's len().
int64_t length_of(const Value& value);
/// The character at an index, negative ones from the end; nothing if there is none.
std::optional<Text> character_at(const Text& text, int64_t index);

// Tables by name: nullptr when there is no such entry.

using Filter = Value (*)(Interpreter& interpreter, const Value& input, const Args& args);
Filter find_filter(std::string_view name);           // jinja_filters.cpp
Filter find_text_filter(std::string_view name);      // jinja_text_filters.cpp
Filter find_sequence_filter(std::string_view name);  // jinja_sequence_filters.cpp

using Test = bool (*)(Interpreter& interpreter, const Value& input, const Args& args);
Test find_test(std::string_view name);  // jinja_tests.cpp
/// All others refuse one.
bool test_takes_argument(std::string_view name);

using Method = Value (*)(Interpreter& interpreter, const Value& self, const Args& args);
/// A method of Python's str, dict or list that doesn't change it.
Method find_method(const Value& self, std::string_view name);  // jinja_methods.cpp
Method find_string_method(std::string_view name);              // jinja_string_methods.cpp

/// range, dict, namespace, raise_exception, strftime_now ... (jinja_globals.cpp).
Dict make_globals();

// Text operations that filters and methods share (jinja_text_ops.cpp).

/// str.strip() with the sides named; no `characters`: white space.
Text strip(const Text& text, const Text* characters, bool left, bool right);
/// str.replace(); negative `count`: all.
Text replace(const Text& text, const Text& from, const Text& to, int64_t count);
/// str.split(separator); no separator: at runs of white space.
std::vector<Value> split(const Text& text, const Text* separator, int64_t max_splits);
std::vector<Value> split_from_right(const Text& text, const Text* separator, int64_t max_splits);
std::vector<Value> split_lines(const Text& text, bool keep_ends);
enum class Case { kUpper, kLower, kTitle, kCapitalize, kSwap };
Text change_case(const Text& text, Case to);
Text join(const std::vector<Value>& items, const Text& separator);
/// Pads with `fill` to `width` characters.
enum class Align { kLeft, kRight, kCenter };
Text pad(const Text& text, int64_t width, Align align, const Text& fill);
/// n times the text. Throws ValueError where that is too large.
Text repeat(const Text& text, int64_t n);

// Formatting (jinja_format.cpp).

/// `format % arguments`; a tuple gives several.
Text percent_format(const Text& format, const Value& arguments);
/// str.format().
Text brace_format(Interpreter& interpreter, const Text& format, const Args& args);

}  // namespace llm::jinja
