// The interpreter's expressions.
#include <fmt/format.h>

#include "text/jinja_builtins.h"
#include "text/jinja_runtime.h"

namespace llm::jinja {

namespace {

constexpr int kMaxDepth = 1500;  // expressions and calls within each other, by stack use

/// x.method as a value of its own.
class BoundMethod : public Callable {
 public:
  BoundMethod(Value self, Method method) : self_(std::move(self)), method_(method) {
    if (depth() > kMaxValueDepth) throw ValueError("methods and lists hold each other too deeply");
  }
  std::string_view type_name() const override { return "method"; }
  int depth() const override { return 1 + self_.depth(); }
  Value call(Interpreter& interpreter, const Args& args) override {
    return method_(interpreter, self_, args);
  }

 private:
  Value self_;
  Method method_;
};

/// Jinja's words for an object in messages about undefined values.
std::string object_words(const Value& object) {
  if (object.is_none()) return "'None'";
  return fmt::format("'{} object'", object.type_name());
}

/// A method, or an attribute of a namespace or loop; undefined if there is none.
Value own_attribute(const Value& object, const std::string& name) {
  if (object.is_object()) {
    if (const auto* space = dynamic_cast<const Namespace*>(object.as_object().get())) {
      const Value* value = space->attributes.find(name);
      return value != nullptr ? *value : Value();
    }
    if (const auto loop = std::dynamic_pointer_cast<Loop>(object.as_object())) {
      if (name == "changed") {
        return Value(std::shared_ptr<Object>(std::make_shared<Function>(
            [loop](Interpreter& interpreter, const Args& args) {
              return Value(loop->changed(args.positional, interpreter.budget()));
            },
            loop->depth())));
      }
      if (name == "cycle") {
        return Value(std::shared_ptr<Object>(std::make_shared<Function>(
            [loop](Interpreter&, const Args& args) {
              if (args.positional.empty()) throw ValueError("no items for cycling given");
              return args.positional[loop->index0 % args.positional.size()];
            },
            loop->depth())));
      }
      return loop->attribute(name);
    }
  }
  const Method method = find_method(object, name);
  if (method == nullptr) return Value();
  return Value(std::shared_ptr<Object>(std::make_shared<BoundMethod>(object, method)));
}

}  // namespace

class Interpreter::Nesting {
 public:
  explicit Nesting(Interpreter& interpreter) : depth_(interpreter.depth_) {
    if (++depth_ > kMaxDepth) {
      --depth_;
      throw ValueError("the template calls itself too deeply");
    }
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;

 private:
  int& depth_;
};

void Interpreter::stop_at(Position position, const std::string& problem) const {
  refuse_at(origin_, position, problem);
}

/// Charges for the size of a new value.
Value Interpreter::checked(Value value) {
  if (value.is_string()) budget_.charge(static_cast<int64_t>(value.as_text().size() / 64));
  if (value.is_list()) budget_.charge(static_cast<int64_t>(value.as_list().items.size()));
  return value;
}

Value Interpreter::eval(const Expr& expr, const ScopePtr& scope) {
  budget_.charge(1);
  const Nesting nesting(*this);
  try {
    return eval_kind(expr, scope);
  } catch (const ValueError& error) {
    stop_at(expr.position, error.what());
  }
}

Value Interpreter::eval_kind(const Expr& expr, const ScopePtr& scope) {
  switch (expr.kind) {
    case Expr::Kind::kConst:
      return expr.value;
    case Expr::Kind::kName:
    case Expr::Kind::kNamespace:
      return eval_name(expr, scope);
    case Expr::Kind::kList:
    case Expr::Kind::kTuple:
      return eval_sequence(expr, scope);
    case Expr::Kind::kDict:
      return eval_dict(expr, scope);
    case Expr::Kind::kNegate:
      return negate(eval(*expr.operands[0], scope));
    case Expr::Kind::kPlus:
      return binary_operation("+", Value(0), eval(*expr.operands[0], scope));
    case Expr::Kind::kNot:
      return Value(!eval(*expr.operands[0], scope).truthy());
    case Expr::Kind::kBinary:
      return eval_binary(expr, scope);
    case Expr::Kind::kCompare:
      return eval_compare(expr, scope);
    case Expr::Kind::kConcat:
      return eval_concat(expr, scope);
    case Expr::Kind::kAnd: {
      Value left = eval(*expr.operands[0], scope);
      return left.truthy() ? eval(*expr.operands[1], scope) : left;
    }
    case Expr::Kind::kOr: {
      Value left = eval(*expr.operands[0], scope);
      return left.truthy() ? left : eval(*expr.operands[1], scope);
    }
    case Expr::Kind::kIf:
      return eval_if(expr, scope);
    case Expr::Kind::kAttribute:
      return get_attribute(eval(*expr.operands[0], scope), expr.text);
    case Expr::Kind::kItem:
      return eval_item(expr, scope);
    case Expr::Kind::kCall:
      return eval_call(expr, scope, nullptr);
    case Expr::Kind::kFilter:
      return eval_filter(expr, scope, nullptr);
    case Expr::Kind::kTest:
      return Value(
          apply_test(expr.text, eval(*expr.operands[0], scope), eval_args(expr.call, scope)));
    case Expr::Kind::kSlice:
      break;
  }
  throw ValueError("a slice belongs into brackets");
}

Value Interpreter::eval_name(const Expr& expr, const ScopePtr& scope) const {
  if (const Value* local = scope->find(expr.text)) return *local;
  if (const Value* given = context_.find(expr.text)) return *given;
  if (const Value* global = globals_.find(expr.text)) return *global;
  return Value::undefined(fmt::format("'{}' is undefined", expr.text));
}

Value Interpreter::eval_sequence(const Expr& expr, const ScopePtr& scope) {
  std::vector<Value> items;
  items.reserve(expr.operands.size());
  for (const ExprPtr& item : expr.operands) items.push_back(eval(*item, scope));
  const bool is_tuple = expr.kind == Expr::Kind::kTuple;
  return Value::list(std::move(items), is_tuple ? ListKind::kTuple : ListKind::kList);
}

Value Interpreter::eval_dict(const Expr& expr, const ScopePtr& scope) {
  Dict dict;
  for (size_t i = 0; i < expr.operands.size(); i += 2) {
    const Value key = eval(*expr.operands[i], scope);
    dict.set(key, eval(*expr.operands[i + 1], scope));
  }
  return Value(std::move(dict));
}

Value Interpreter::eval_binary(const Expr& expr, const ScopePtr& scope) {
  const Value left = eval(*expr.operands[0], scope);
  return checked(binary_operation(expr.text, left, eval(*expr.operands[1], scope)));
}

Value Interpreter::eval_compare(const Expr& expr, const ScopePtr& scope) {
  Value left = eval(*expr.operands[0], scope);
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    Value right = eval(*expr.operands[i + 1], scope);
    if (!compare_operation(expr.operators[i], left, right, budget_)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::eval_concat(const Expr& expr, const ScopePtr& scope) {
  Text text;
  for (const ExprPtr& part : expr.operands) text.append(to_text(eval(*part, scope)));
  return checked(Value(std::move(text)));
}

Value Interpreter::eval_if(const Expr& expr, const ScopePtr& scope) {
  if (eval(*expr.operands[1], scope).truthy()) return eval(*expr.operands[0], scope);
  if (expr.operands[2]) return eval(*expr.operands[2], scope);
  return Value::undefined("the inline if-expression evaluated to false and no else was given");
}

Value Interpreter::eval_item(const Expr& expr, const ScopePtr& scope) {
  const Value object = eval(*expr.operands[0], scope);
  const Expr& key = *expr.operands[1];
  if (key.kind != Expr::Kind::kSlice) return get_item(object, eval(key, scope));
  const auto part = [&](size_t i) {
    return key.operands[i] ? eval(*key.operands[i], scope) : Value::none();
  };
  const Value start = part(0), stop = part(1);
  return checked(slice(object, start, stop, part(2)));
}

Value Interpreter::get_attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) throw ValueError(object.undefined_hint());
  Value own = own_attribute(object, name);
  if (!own.is_undefined()) return own;
  if (const Value* item = object.find(name)) return *item;
  if (name.starts_with("__")) {
    return Value::undefined(
        fmt::format("access to attribute '{}' of {} is unsafe", name, object_words(object)));
  }
  return Value::undefined(fmt::format("{} has no attribute '{}'", object_words(object), name));
}

Value Interpreter::get_item(const Value& object, const Value& key) {
  if (object.is_undefined()) throw ValueError(object.undefined_hint());
  if (object.is_dict()) {
    const bool hashable =
        !key.is_dict() && !(key.is_list() && key.as_list().kind == ListKind::kList);
    const Value* item = hashable ? object.as_dict().find_value(key) : nullptr;
    if (item != nullptr) return *item;
  }
  if (key.is_integer() && object.is_list() && object.as_list().kind <= ListKind::kRange) {
    const auto& items = object.as_list().items;
    const auto count = static_cast<int64_t>(items.size());
    const int64_t i = key.as_int() < 0 ? key.as_int() + count : key.as_int();
    if (i >= 0 && i < count) return items[static_cast<size_t>(i)];
  }
  if (key.is_integer() && object.is_string()) {
    budget_.charge(static_cast<int64_t>(object.as_text().size() / 64));
    if (auto character = character_at(object.as_text(), key.as_int())) {
      return Value(std::move(*character));
    }
  }
  if (key.is_string()) {
    Value own = own_attribute(object, key.as_string());
    if (!own.is_undefined()) return own;
    return Value::undefined(
        fmt::format("{} has no attribute '{}'", object_words(object), key.as_string()));
  }
  return Value::undefined(
      fmt::format("{} has no element {}", object_words(object), to_repr(key).str()));
}

Args Interpreter::eval_args(const CallArgs& call, const ScopePtr& scope) {
  Args args;
  for (const ExprPtr& arg : call.args) args.positional.push_back(eval(*arg, scope));
  if (call.star) {
    for (Value& item : iterate(eval(*call.star, scope))) args.positional.push_back(std::move(item));
  }
  for (const auto& [name, value] : call.keywords)
    args.named.emplace_back(name, eval(*value, scope));
  if (call.double_star) {
    const Value more = eval(*call.double_star, scope);
    if (!more.is_dict()) throw ValueError("the argument after ** must be a mapping");
    for (const auto& [key, value] : more.as_dict().entries()) {
      if (!key.is_string()) throw ValueError("keywords must be strings");
      args.named.emplace_back(key.as_string(), value);
    }
  }
  return args;
}

Value Interpreter::eval_call(const Expr& expr, const ScopePtr& scope, const Value* caller) {
  const Value callee = eval(*expr.operands[0], scope);
  Args args = eval_args(expr.call, scope);
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  return checked(call(callee, args));
}

Value Interpreter::call(const Value& callee, const Args& args) {
  if (callee.is_undefined()) throw ValueError(callee.undefined_hint());
  const auto function =
      callee.is_object() ? std::dynamic_pointer_cast<Callable>(callee.as_object()) : nullptr;
  if (!function) {
    throw ValueError(fmt::format("'{}' object is not callable", callee.type_name()));
  }
  const Nesting nesting(*this);
  return function->call(*this, args);
}

Value Interpreter::eval_filter(const Expr& expr, const ScopePtr& scope, const Value* body) {
  // The innermost filter of a chain over a block has no operand: the block's text goes in.
  const Value input = !expr.operands.empty() ? body != nullptr
                                                   ? eval_filter(*expr.operands[0], scope, body)
                                                   : eval(*expr.operands[0], scope)
                                             : *body;
  return checked(apply_filter(expr.text, input, eval_args(expr.call, scope)));
}

Value Interpreter::apply_filter(const std::string& name, const Value& input, const Args& args) {
  const Filter filter = find_filter(name);
  if (filter == nullptr) throw ValueError(fmt::format("No filter named '{}'.", name));
  return filter(*this, input, args);
}

bool Interpreter::apply_test(const std::string& name, const Value& input, const Args& args) {
  const Test test = find_test(name);
  if (test == nullptr) throw ValueError(fmt::format("No test named '{}'.", name));
  const bool has_arguments = !args.positional.empty() || !args.named.empty();
  if (has_arguments && !test_takes_argument(name)) {
    throw ValueError(fmt::format("the test '{}' takes no argument", name));
  }
  return test(*this, input, args);
}

BoundArgs::BoundArgs(std::string_view function, const Args& args,
                     std::initializer_list<std::string_view> parameters)
    : function_(function), parameters_(parameters), values_(parameters.size(), nullptr) {
  if (args.positional.size() > parameters_.size()) {
    throw ValueError(fmt::format("{}() takes at most {} argument(s), got {}", function,
                                 parameters_.size(), args.positional.size()));
  }
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    size_t i = 0;
    while (i < parameters_.size() && parameters_[i] != name) ++i;
    if (i == parameters_.size()) {
      throw ValueError(fmt::format("{}() got an unexpected keyword argument '{}'", function, name));
    }
    if (values_[i] != nullptr) {
      throw ValueError(fmt::format("{}() got two values for '{}'", function, name));
    }
    values_[i] = &value;
  }
}

const Value& BoundArgs::need(size_t i) const {
  if (values_[i] == nullptr) {
    throw ValueError(fmt::format("{}() needs the argument '{}'", function_, parameters_[i]));
  }
  return *values_[i];
}

int64_t BoundArgs::integer(size_t i, int64_t fallback) const {
  const Value* value = values_[i];
  if (value == nullptr || value->is_none()) return fallback;
  if (!value->is_integer()) {
    throw ValueError(fmt::format("{}(): '{}' must be an integer, not {}", function_, parameters_[i],
                                 value->type_name()));
  }
  return value->as_int();
}

Text BoundArgs::text(size_t i, std::string_view fallback) const {
  const Value* value = values_[i];
  if (value == nullptr) return Text(std::string(fallback));
  if (!value->is_string()) {
    throw ValueError(fmt::format("{}(): '{}' must be a string, not {}", function_, parameters_[i],
                                 value->type_name()));
  }
  return value->as_text();
}

}  // namespace llm::jinja
