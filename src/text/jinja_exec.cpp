// The interpreter's statements.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_builtins.h"
#include "text/jinja_runtime.h"

namespace llm::jinja {

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
    for (const auto& [key, value] : scope->names_) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(const std::string& name, Value value) {
  for (auto& [key, old] : names_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  names_.emplace_back(name, std::move(value));
}

namespace {

/// A macro or the body of a call block, with the scope that it was defined in.
class Macro : public Callable {
 public:
  Macro(const Stmt& statement, ScopePtr scope) : statement_(statement), scope_(std::move(scope)) {}
  std::string_view type_name() const override { return "Macro"; }
  Value call(Interpreter& interpreter, const Args& args) override {
    return Value(interpreter.run_macro(statement_, scope_, args));
  }

 private:
  const Stmt& statement_;
  ScopePtr scope_;
};

}  // namespace

void Loop::set_items(std::vector<Value> items) {
  for (const Value& item : items) depth_ = std::max(depth_, 1 + item.depth());
  if (depth_ > kMaxValueDepth) throw ValueError("loops and lists hold each other too deeply");
  items_ = std::move(items);
}

Value Loop::call(Interpreter& interpreter, const Args& args) {
  if (!statement->recursive) {
    throw ValueError("The loop must have the 'recursive' marker to be called recursively.");
  }
  const BoundArgs bound("loop", args, {"iterable"});
  return Value(interpreter.run_recursive_loop(*this, bound.need(0)));
}

Value Loop::attribute(std::string_view name) const {
  const auto count = static_cast<int64_t>(items_.size());
  const auto i = static_cast<int64_t>(index0);
  if (name == "index") return Value(i + 1);
  if (name == "index0") return Value(i);
  if (name == "revindex") return Value(count - i);
  if (name == "revindex0") return Value(count - i - 1);
  if (name == "first") return Value(i == 0);
  if (name == "last") return Value(i + 1 == count);
  if (name == "length") return Value(count);
  if (name == "depth") return Value(depth0 + 1);
  if (name == "depth0") return Value(depth0);
  if (name == "previtem") {
    return i > 0 ? items_[index0 - 1] : Value::undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return i + 1 < count ? items_[index0 + 1] : Value::undefined("there is no next item");
  }
  return Value::undefined(fmt::format("'loop' has no attribute '{}'", name));
}

bool Loop::changed(std::vector<Value> values, Budget& budget) {
  const bool same =
      has_last_values_ && equals(Value::list(values), Value::list(last_values_), budget);
  has_last_values_ = true;
  last_values_ = std::move(values);
  return !same;
}

Interpreter::Interpreter(const std::string& origin, const Value& context)
    : origin_(origin), context_(context), globals_(make_globals()) {}

Interpreter::~Interpreter() {
  for (const auto& space : namespaces_) space->attributes = Dict();
  for (const ScopePtr& scope : captured_scopes_) scope->clear();
}

std::shared_ptr<Namespace> Interpreter::make_namespace() {
  namespaces_.push_back(std::make_shared<Namespace>());
  return namespaces_.back();
}

Text Interpreter::render(const Body& body) {
  return capture(body, std::make_shared<Scope>(nullptr));
}

Text Interpreter::capture(const Body& body, const ScopePtr& scope) {
  Text text;
  Text* const outer = std::exchange(out_, &text);
  run_body(body, scope);
  out_ = outer;
  return text;
}

void Interpreter::write(const Text& text) {
  budget_.charge(static_cast<int64_t>(text.size() / 64));
  out_->append(text);
}

Interpreter::Flow Interpreter::run_body(const Body& body, const ScopePtr& scope) {
  for (const StmtPtr& stmt : body) {
    Flow flow = Flow::kNormal;
    try {
      flow = run(*stmt, scope);
    } catch (const ValueError& error) {
      stop_at(stmt->position, error.what());
    }
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const Stmt& stmt, const ScopePtr& scope) {
  budget_.charge(1);
  switch (stmt.kind) {
    case Stmt::Kind::kData:
      write(Text(stmt.text));
      break;
    case Stmt::Kind::kPrint:
      for (const ExprPtr& expr : stmt.exprs) write(to_text(eval(*expr, scope)));
      break;
    case Stmt::Kind::kIf:
      return run_if(stmt, scope);
    case Stmt::Kind::kFor:
      return run_for(stmt, scope);
    case Stmt::Kind::kSet:
      assign(*stmt.targets[0], eval(*stmt.exprs[0], scope), *scope);
      break;
    case Stmt::Kind::kSetBlock: {
      Value text(capture(stmt.bodies[0], std::make_shared<Scope>(scope)));
      if (stmt.exprs[0]) text = eval_filter(*stmt.exprs[0], scope, &text);
      assign(*stmt.targets[0], text, *scope);
      break;
    }
    case Stmt::Kind::kWith:
      run_with(stmt, scope);
      break;
    case Stmt::Kind::kMacro:
      scope->set(stmt.text, make_macro(stmt, scope));
      break;
    case Stmt::Kind::kCall:
      run_call_block(stmt, scope);
      break;
    case Stmt::Kind::kFilter: {
      const Value text(capture(stmt.bodies[0], std::make_shared<Scope>(scope)));
      const Value filtered = eval_filter(*stmt.exprs[0], scope, &text);
      if (!filtered.is_string()) {  // Python joins what a block writes
        throw ValueError(
            fmt::format("a filter block must give a str, not {}", filtered.type_name()));
      }
      write(filtered.as_text());
      break;
    }
    case Stmt::Kind::kScope:
      return run_body(stmt.bodies[0], std::make_shared<Scope>(scope));
    case Stmt::Kind::kBreak:
      return Flow::kBreak;
    case Stmt::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_if(const Stmt& stmt, const ScopePtr& scope) {
  for (size_t i = 0; i < stmt.exprs.size(); ++i) {
    if (eval(*stmt.exprs[i], scope).truthy()) return run_body(stmt.bodies[i], scope);
  }
  const bool has_else = stmt.bodies.size() > stmt.exprs.size();
  return has_else ? run_body(stmt.bodies.back(), scope) : Flow::kNormal;
}

Interpreter::Flow Interpreter::run_for(const Stmt& stmt, const ScopePtr& scope) {
  return run_loop(stmt, scope, eval(*stmt.exprs[0], scope), 0);
}

std::vector<Value> Interpreter::loop_items(const Stmt& stmt, const ScopePtr& scope,
                                           const Value& iterable) {
  std::vector<Value> items = iterate(iterable);
  budget_.charge(static_cast<int64_t>(items.size()));
  if (!stmt.exprs[1]) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    const auto inner = std::make_shared<Scope>(scope);
    assign(*stmt.targets[0], item, *inner);
    if (eval(*stmt.exprs[1], inner).truthy()) kept.push_back(std::move(item));
  }
  return kept;
}

Interpreter::Flow Interpreter::run_loop(const Stmt& stmt, const ScopePtr& scope,
                                        const Value& iterable, int depth0) {
  const auto loop = std::make_shared<Loop>();
  loop->set_items(loop_items(stmt, scope, iterable));
  loop->depth0 = depth0;
  loop->statement = &stmt;
  loop->outer = scope;
  for (size_t i = 0; i < loop->items().size(); ++i) {
    loop->index0 = i;
    const auto inner = std::make_shared<Scope>(scope);
    inner->set("loop", Value(std::shared_ptr<Object>(loop)));
    assign(*stmt.targets[0], loop->items()[i], *inner);
    if (run_body(stmt.bodies[0], inner) == Flow::kBreak) break;
  }
  const bool has_else = stmt.bodies.size() > 1;
  if (!loop->items().empty() || !has_else) return Flow::kNormal;
  return run_body(stmt.bodies[1], std::make_shared<Scope>(scope));
}

Text Interpreter::run_recursive_loop(const Loop& loop, const Value& items) {
  Text text;
  Text* const outer = std::exchange(out_, &text);
  run_loop(*loop.statement, loop.outer, items, loop.depth0 + 1);
  out_ = outer;
  return text;
}

void Interpreter::run_with(const Stmt& stmt, const ScopePtr& scope) {
  const auto inner = std::make_shared<Scope>(scope);
  for (size_t i = 0; i < stmt.targets.size(); ++i) {
    assign(*stmt.targets[i], eval(*stmt.exprs[i], scope), *inner);
  }
  run_body(stmt.bodies[0], inner);
}

Value Interpreter::make_macro(const Stmt& stmt, const ScopePtr& scope) {
  captured_scopes_.push_back(scope);
  return Value(std::shared_ptr<Object>(std::make_shared<Macro>(stmt, scope)));
}

void Interpreter::run_call_block(const Stmt& stmt, const ScopePtr& scope) {
  const Value caller = make_macro(stmt, scope);
  write(to_text(eval_call(*stmt.exprs[0], scope, &caller)));
}

Text Interpreter::run_macro(const Stmt& macro, const ScopePtr& definition, const Args& args) {
  const auto scope = std::make_shared<Scope>(definition);
  bind_arguments(macro, scope, args);
  return capture(macro.bodies[0], scope);
}

void Interpreter::bind_arguments(const Stmt& macro, const ScopePtr& scope, const Args& args) {
  const std::string name = macro.text.empty() ? "caller" : macro.text;
  std::vector<std::pair<std::string, Value>> extra = args.named;
  const auto take = [&](const std::string& key) {
    const auto it = std::find_if(extra.begin(), extra.end(),
                                 [&](const auto& named) { return named.first == key; });
    if (it == extra.end()) return std::shared_ptr<Value>();
    auto value = std::make_shared<Value>(std::move(it->second));
    extra.erase(it);
    return value;
  };
  for (size_t i = 0; i < macro.params.size(); ++i) {
    const Param& param = macro.params[i];
    if (i < args.positional.size()) {
      scope->set(param.name, args.positional[i]);
    } else if (const auto value = take(param.name)) {
      scope->set(param.name, *value);
    } else if (param.default_value) {
      scope->set(param.name, eval(*param.default_value, scope));
    } else {
      scope->set(param.name,
                 Value::undefined(fmt::format("parameter '{}' was not provided", param.name)));
    }
  }
  if (macro.uses.caller) {
    const auto caller = take("caller");
    const bool is_param = std::any_of(macro.params.begin(), macro.params.end(),
                                      [](const Param& param) { return param.name == "caller"; });
    if (!is_param) {
      scope->set("caller", caller ? *caller : Value::undefined("No caller defined"));
    }
  }
  if (macro.uses.kwargs) {
    Dict rest;
    for (auto& [key, value] : extra) rest.set(Value(key), std::move(value));
    scope->set("kwargs", Value(std::move(rest)));
  } else if (!extra.empty()) {
    throw ValueError(
        fmt::format("macro '{}' takes no keyword argument '{}'", name, extra[0].first));
  }
  const size_t count = macro.params.size();
  if (macro.uses.varargs) {
    std::vector<Value> rest;
    for (size_t i = count; i < args.positional.size(); ++i) rest.push_back(args.positional[i]);
    scope->set("varargs", Value::list(std::move(rest), ListKind::kTuple));
  } else if (args.positional.size() > count) {
    throw ValueError(fmt::format("macro '{}' takes not more than {} argument(s)", name, count));
  }
}

void Interpreter::assign(const Expr& target, const Value& value, Scope& scope) {
  if (target.kind == Expr::Kind::kName) return scope.set(target.text, value);
  if (target.kind == Expr::Kind::kNamespace) {
    const Value* found = scope.find(target.text);
    const auto space = found != nullptr && found->is_object()
                           ? std::dynamic_pointer_cast<Namespace>(found->as_object())
                           : nullptr;
    if (!space) throw ValueError("cannot assign attribute on non-namespace object");
    if (target.attribute.starts_with("_")) {
      throw ValueError(fmt::format("a namespace can't have the attribute '{}'", target.attribute));
    }
    return space->attributes.set(Value(target.attribute), value);
  }
  const std::vector<Value> items = iterate(value);
  if (items.size() != target.operands.size()) {
    throw ValueError(
        fmt::format("expected {} values to unpack, got {}", target.operands.size(), items.size()));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    assign(*target.operands[i], items[i], scope);
  }
}

}  // namespace llm::jinja
