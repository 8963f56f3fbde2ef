// JSON-like values with Python's behaviour: what chat templates compute with.
//
// Strings remember where their characters came from (Origin), so that a rendered prompt can tell
// what a message contributed from what the template wrote. Values never change once made; objects
// (namespaces, macros) belong to the template engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace llm {

/// An operation that the value doesn't allow. Whoever knows the place (file, line) adds it.
class ValueError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Work that is still allowed. One step is about one visited value or 64 bytes of text.
struct Budget {
  int64_t steps = 20'000'000;
  /// Throws ValueError when the steps are used up.
  void charge(int64_t n) {
    steps -= n;
    if (steps < 0) throw ValueError("the template does too much work (a loop without end?)");
  }
};

/// Where characters came from.
enum class Origin : uint8_t {
  kTemplate,   // the template's own text
  kAssistant,  // an assistant message
  kContent,    // any other message, or a tool definition
};

inline constexpr size_t kMaxTextBytes = size_t{128} << 20;
inline constexpr size_t kMaxListItems = size_t{4} << 20;
inline constexpr int kMaxValueDepth = 200;  // lists and dicts within each other

/// UTF-8 text with the origin of every byte. Texts compare by their bytes alone.
class Text {
 public:
  /// Bytes up to `end` (from the end of the run before) have this origin.
  struct Run {
    size_t end = 0;
    Origin origin = Origin::kTemplate;
  };

  Text() = default;
  explicit Text(std::string bytes, Origin origin = Origin::kTemplate);
  explicit Text(const char* bytes) : Text(std::string(bytes)) {}

  const std::string& str() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  /// Ascending runs that cover the text; empty when all of it is the template's.
  const std::vector<Run>& runs() const { return runs_; }
  /// Origin of the byte at `pos` < size().
  Origin origin_at(size_t pos) const;

  /// Throw ValueError when the text would grow beyond kMaxTextBytes.
  void append(const Text& other) { append_range(other, 0, other.size()); }
  void append(std::string_view bytes, Origin origin = Origin::kTemplate);
  /// Appends bytes [begin, end) of another text.
  void append_range(const Text& other, size_t begin, size_t end);

  /// Bytes [begin, end).
  Text slice(size_t begin, size_t end) const;

  friend bool operator==(const Text& a, const Text& b) { return a.bytes_ == b.bytes_; }

 private:
  void extend_run(size_t bytes, Origin origin);

  std::string bytes_;
  std::vector<Run> runs_;
};

/// Which Python type a sequence plays.
enum class ListKind : uint8_t { kList, kTuple, kRange, kGenerator, kKeys, kValues, kItems };

/// Base of what only the template engine knows: functions, macros, namespaces, loops.
class Object {
 public:
  virtual ~Object() = default;
  /// Python's name of the type, for messages.
  virtual std::string_view type_name() const = 0;
  /// Nesting of the values that it holds for good, as Value::depth().
  virtual int depth() const { return 0; }
};

struct List;
class Dict;

class Value {
 public:
  struct Undefined {
    std::shared_ptr<const std::string> hint;  // "'x' is undefined"; may be null
  };
  struct None {};
  struct BigInt {
    std::shared_ptr<const std::string> digits;  // an integer beyond 64 bits, as it was written
  };

  /// Undefined without a hint.
  Value() = default;
  Value(bool b) : data_(b) {}
  Value(int64_t i) : data_(i) {}
  Value(int i) : data_(int64_t{i}) {}
  Value(double d) : data_(d) {}
  Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}
  Value(std::string text) : Value(Text(std::move(text))) {}
  Value(const char* text) : Value(Text(text)) {}
  /// Throw ValueError when nested deeper than kMaxValueDepth.
  Value(List list);
  Value(Dict dict);
  Value(std::shared_ptr<Object> object) : data_(std::move(object)) {}

  static Value none() { return Value(None{}); }
  static Value undefined(std::string hint) {
    return Value(Undefined{std::make_shared<const std::string>(std::move(hint))});
  }
  static Value big_int(std::string digits) {
    return Value(BigInt{std::make_shared<const std::string>(std::move(digits))});
  }
  static Value list(std::vector<Value> items, ListKind kind = ListKind::kList);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<int64_t>(data_); }
  bool is_big_int() const { return std::holds_alternative<BigInt>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_string() const { return std::holds_alternative<TextPtr>(data_); }
  bool is_list() const { return std::holds_alternative<ListPtr>(data_); }
  bool is_dict() const { return std::holds_alternative<DictPtr>(data_); }
  bool is_object() const { return std::holds_alternative<ObjectPtr>(data_); }
  /// int64, or bool as Python counts it.
  bool is_integer() const { return is_int() || is_bool(); }
  bool is_number() const { return is_integer() || is_float() || is_big_int(); }

  // Only for the kind that the value has.
  bool as_bool() const { return std::get<bool>(data_); }
  int64_t as_int() const { return is_bool() ? int64_t{as_bool()} : std::get<int64_t>(data_); }
  const std::string& as_big_int() const { return *std::get<BigInt>(data_).digits; }
  /// Of any number.
  double as_float() const;
  const Text& as_text() const { return *std::get<TextPtr>(data_); }
  const std::string& as_string() const { return as_text().str(); }
  const List& as_list() const { return *std::get<ListPtr>(data_); }
  const Dict& as_dict() const { return *std::get<DictPtr>(data_); }
  const std::shared_ptr<Object>& as_object() const { return std::get<ObjectPtr>(data_); }
  /// The hint of an undefined value.
  std::string undefined_hint() const;

  /// The value of a key, or nullptr when this is no dict or has no such key.
  const Value* find(std::string_view key) const;

  /// Python's bool().
  bool truthy() const;
  /// Python's name of the type: "str", "int", "NoneType" ...
  std::string_view type_name() const;
  /// The same object (Python's `is`) for containers and objects, the same value for the rest.
  bool same_as(const Value& other) const;
  /// Nesting of lists and dicts: 0 for scalars.
  int depth() const;

 private:
  using TextPtr = std::shared_ptr<const Text>;
  using ListPtr = std::shared_ptr<const List>;
  using DictPtr = std::shared_ptr<const Dict>;
  using ObjectPtr = std::shared_ptr<Object>;

  explicit Value(None none) : data_(none) {}
  explicit Value(Undefined undefined) : data_(std::move(undefined)) {}
  explicit Value(BigInt big) : data_(std::move(big)) {}

  std::variant<Undefined, None, bool, int64_t, BigInt, double, TextPtr, ListPtr, DictPtr, ObjectPtr>
      data_;
};

struct List {
  std::vector<Value> items;
  ListKind kind = ListKind::kList;
  Origin origin = Origin::kTemplate;  // of the brackets and commas when printed
  bool print_as_json = false;         // prints as JSON instead of Python's repr
  int depth = 1;
  int64_t range_start = 0, range_stop = 0, range_step = 1;  // of kRange, when printed
};

/// Keys in the order of their first insertion. Keys are hashable values, mostly strings.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  const Value* find_value(const Value& key) const;
  const Value* find(std::string_view key) const;
  /// Inserts, or replaces the value at the key's old place. Throws ValueError if not hashable.
  void set(const Value& key, Value value);
  void erase(std::string_view key);

  Origin origin = Origin::kTemplate;  // of braces, colons and commas when printed
  bool print_as_json = false;         // prints as JSON instead of Python's repr
  int depth = 1;

 private:
  const Value* find_hash(const std::string& hash) const;

  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;  // hash text -> position
};

inline Value Value::list(std::vector<Value> items, ListKind kind) {
  List list;
  list.items = std::move(items);
  list.kind = kind;
  return Value(std::move(list));
}

/// Python's ==.
bool equals(const Value& a, const Value& b, Budget& budget);

/// Python's ordering of numbers, strings and sequences: negative, 0 or positive. Throws ValueError
/// when the two can't be ordered; `op` is named in that message.
int compare(const Value& a, const Value& b, std::string_view op, Budget& budget);

/// Python's str() and repr().
Text to_text(const Value& value);
Text to_repr(const Value& value);

/// Python's repr() of a float: "1.0", "1e-05", "inf".
std::string float_repr(double value);

/// Arguments of Python's json.dumps.
struct JsonFormat {
  std::optional<std::string> indent;  // per level; none: all on one line
  Text item_separator{", "};
  Text key_separator{": "};
  bool sort_keys = false;
  bool ensure_ascii = false;
};

/// Python's json.dumps(value). Throws ValueError for what JSON doesn't know.
Text to_json(const Value& value, const JsonFormat& format = {});

/// Reads one JSON text (UTF-8) into a template value. As in Python the last of equal keys wins and
/// integers keep all their digits. Refuses (exit code 2) anything else, naming `origin` (the file),
/// line and column.
Value parse_json_value(std::string_view text, const std::string& origin);

/// A copy whose strings, keys and punctuation all have this origin.
Value with_origin(const Value& value, Origin origin);

}  // namespace llm
