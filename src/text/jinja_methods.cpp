// Methods of Python's dict, list and tuple that don't change them.
#include <fmt/format.h>

#include "text/jinja_builtins.h"

namespace llm::jinja {

namespace {

using I = Interpreter&;
using S = const Value&;
using A = const Args&;

Value get(I, S self, A args) {
  const BoundArgs bound("get", args, {"key", "default"});
  const Value* item = self.as_dict().find_value(bound.need(0));
  if (item != nullptr) return *item;
  return bound.get(1) != nullptr ? *bound.get(1) : Value::none();
}

Value keys(I, S self, A args) {
  BoundArgs("keys", args, {});
  return Value::list(iterate(self), ListKind::kKeys);
}

Value values(I, S self, A args) {
  BoundArgs("values", args, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.as_dict().entries()) items.push_back(value);
  return Value::list(std::move(items), ListKind::kValues);
}

Value items(I, S self, A args) {
  BoundArgs("items", args, {});
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.as_dict().entries()) {
    pairs.push_back(Value::list({key, value}, ListKind::kTuple));
  }
  return Value::list(std::move(pairs), ListKind::kItems);
}

Value copy(I, S self, A args) {
  BoundArgs("copy", args, {});
  return self;
}

Value count(I interpreter, S self, A args) {
  const BoundArgs bound("count", args, {"value"});
  int64_t n = 0;
  for (const Value& item : self.as_list().items) {
    n += equals(item, bound.need(0), interpreter.budget()) ? 1 : 0;
  }
  return Value(n);
}

Value index(I interpreter, S self, A args) {
  const BoundArgs bound("index", args, {"value"});
  const auto& list = self.as_list().items;
  for (size_t i = 0; i < list.size(); ++i) {
    if (equals(list[i], bound.need(0), interpreter.budget())) {
      return Value(static_cast<int64_t>(i));
    }
  }
  throw ValueError(fmt::format("{} is not in list", to_repr(bound.need(0)).str()));
}

Method find_dict_method(std::string_view name) {
  if (name == "get") return get;
  if (name == "keys") return keys;
  if (name == "values") return values;
  if (name == "items") return items;
  return name == "copy" ? copy : nullptr;
}

Method find_list_method(ListKind kind, std::string_view name) {
  if (kind > ListKind::kRange) return nullptr;
  if (name == "count") return count;
  if (name == "index") return index;
  return name == "copy" && kind == ListKind::kList ? copy : nullptr;
}

}  // namespace

Method find_method(const Value& self, std::string_view name) {
  if (self.is_string()) return find_string_method(name);
  if (self.is_dict()) return find_dict_method(name);
  if (self.is_list()) return find_list_method(self.as_list().kind, name);
  return nullptr;
}

}  // namespace llm::jinja
