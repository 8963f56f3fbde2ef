// The functions that every template sees.
#include <fmt/format.h>

#include <array>
#include <ctime>

#include "text/jinja_builtins.h"

namespace llm::jinja {

namespace {

Value function(Function::Body body, int depth = 0) {
  return Value(std::shared_ptr<Object>(std::make_shared<Function>(std::move(body), depth)));
}

/// range() with Jinja's sandbox limit.
Value range(Interpreter&, const Args& args) {
  constexpr int64_t kMaxRange = 100'000;
  const BoundArgs bound("range", args, {"start", "stop", "step"});
  bound.need(0);
  for (size_t i = 0; i < 3; ++i) {
    if (bound.get(i) != nullptr && bound.get(i)->is_undefined()) {
      throw ValueError(bound.get(i)->undefined_hint());
    }
  }
  const bool only_stop = bound.get(1) == nullptr;
  const int64_t start = only_stop ? 0 : bound.integer(0, 0);
  const int64_t stop = bound.integer(only_stop ? 0 : 1, 0);
  const int64_t step = bound.integer(2, 1);
  if (step == 0) throw ValueError("range() arg 3 must not be zero");
  List range;
  range.kind = ListKind::kRange;
  range.range_start = start;
  range.range_stop = stop;
  range.range_step = step;
  std::vector<Value>& items = range.items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) == kMaxRange) {
      throw ValueError(fmt::format("Range too big: at most {} items are allowed", kMaxRange));
    }
    items.push_back(Value(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value(std::move(range));
}

/// dict(mapping or pairs, key=value ...).
Dict make_dict(const Args& args) {
  if (args.positional.size() > 1) throw ValueError("dict expected at most 1 argument");
  Dict dict;
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is_dict()) {
      for (const auto& [key, value] : source.as_dict().entries()) dict.set(key, value);
    } else {
      for (const Value& item : iterate(source)) {
        const std::vector<Value> pair = iterate(item);
        if (pair.size() != 2) throw ValueError("dict() needs pairs of key and value");
        dict.set(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) dict.set(Value(name), value);
  return dict;
}

Value make_namespace(Interpreter& interpreter, const Args& args) {
  const auto space = interpreter.make_namespace();
  space->attributes = make_dict(args);
  for (const auto& [key, value] : space->attributes.entries()) {
    if (key.is_string() && key.as_string().starts_with("_")) {
      throw ValueError(fmt::format("a namespace can't have the attribute '{}'", key.as_string()));
    }
  }
  return Value(std::shared_ptr<Object>(space));
}

Value raise_exception(Interpreter&, const Args& args) {
  const BoundArgs bound("raise_exception", args, {"message"});
  throw ValueError(to_text(bound.need(0)).str());
}

Value strftime_now(Interpreter&, const Args& args) {
  const BoundArgs bound("strftime_now", args, {"format"});
  const std::string format = bound.text(0, "").str();
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 4096> buffer;
  if (format.empty()) return Value("");
  const size_t length = std::strftime(buffer.data(), buffer.size(), format.c_str(), &local);
  return Value(std::string(buffer.data(), length));
}

/// Gives its separator on every call but the first.
Value joiner(Interpreter&, const Args& args) {
  const BoundArgs bound("joiner", args, {"sep"});
  return function(
      [sep = bound.text(0, ", "), used = std::make_shared<bool>(false)](Interpreter&, const Args&) {
        return std::exchange(*used, true) ? Value(sep) : Value("");
      });
}

Dict named_functions() {
  Dict globals;
  globals.set(Value("range"), function(range));
  globals.set(Value("dict"),
              function([](Interpreter&, const Args& args) { return Value(make_dict(args)); }));
  globals.set(Value("namespace"), function(make_namespace));
  globals.set(Value("joiner"), function(joiner));
  globals.set(Value("raise_exception"), function(raise_exception));
  globals.set(Value("strftime_now"), function(strftime_now));
  return globals;
}

}  // namespace

Dict make_globals() { return named_functions(); }

}  // namespace llm::jinja
