// What the evaluator and the built-in functions share: calls, scopes, the interpreter.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_ast.h"
#include "text/value.h"

namespace llm::jinja {

class Interpreter;

/// Evaluated arguments of a call.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Arguments in the order of a function's parameters. Throws ValueError for too many, unknown or
/// doubled ones.
class BoundArgs {
 public:
  BoundArgs(std::string_view function, const Args& args,
            std::initializer_list<std::string_view> parameters);

  /// nullptr when not given.
  const Value* get(size_t i) const { return values_[i]; }
  /// Throws ValueError when not given.
  const Value& need(size_t i) const;
  bool flag(size_t i, bool fallback) const { return get(i) ? get(i)->truthy() : fallback; }
  int64_t integer(size_t i, int64_t fallback) const;
  Text text(size_t i, std::string_view fallback) const;

 private:
  std::string function_;
  std::vector<std::string_view> parameters_;
  std::vector<const Value*> values_;
};

class Callable : public Object {
 public:
  virtual Value call(Interpreter& interpreter, const Args& args) = 0;
};

class Function : public Callable {
 public:
  using Body = std::function<Value(Interpreter&, const Args&)>;
  /// `depth`: of what the body holds.
  explicit Function(Body body, int depth = 0) : body_(std::move(body)), depth_(depth) {}
  int depth() const override { return depth_; }
  std::string_view type_name() const override { return "function"; }
  Value call(Interpreter& interpreter, const Args& args) override {
    return body_(interpreter, args);
  }

 private:
  Body body_;
  int depth_;
};

/// namespace(): the one value whose attributes a template can set.
class Namespace : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  Dict attributes;
};

/// Names of one block, and the scope around it.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}
  const Value* find(std::string_view name) const;
  void set(const std::string& name, Value value);
  void clear() { names_.clear(); }

 private:
  std::shared_ptr<Scope> parent_;
  std::vector<std::pair<std::string, Value>> names_;
};
using ScopePtr = std::shared_ptr<Scope>;

/// State of one `for`, the template's `loop`.
class Loop : public Callable {
 public:
  std::string_view type_name() const override { return "LoopContext"; }
  /// A recursive loop runs itself over other items and gives the text.
  Value call(Interpreter& interpreter, const Args& args) override;
  /// Undefined when there is no such attribute.
  Value attribute(std::string_view name) const;
  /// loop.changed(...): whether the values differ from those of the call before.
  bool changed(std::vector<Value> values, Budget& budget);

  /// Throws ValueError when they nest too deeply.
  void set_items(std::vector<Value> items);
  const std::vector<Value>& items() const { return items_; }
  int depth() const override { return depth_; }

  size_t index0 = 0;
  int depth0 = 0;
  const Stmt* statement = nullptr;
  ScopePtr outer;

 private:
  std::vector<Value> items_;
  int depth_ = 1;
  std::vector<Value> last_values_;
  bool has_last_values_ = false;
};

/// Runs a parsed template once. Errors of the template's own making name line and column.
class Interpreter {
 public:
  /// `context`: a dict with the names that the template sees.
  Interpreter(const std::string& origin, const Value& context);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;

  Text render(const Body& body);

  Budget& budget() { return budget_; }

  Value call(const Value& callee, const Args& args);
  Value apply_filter(const std::string& name, const Value& input, const Args& args);
  bool apply_test(const std::string& name, const Value& input, const Args& args);

  /// x.name of Jinja: an attribute or method, else the item of that name, else undefined.
  Value get_attribute(const Value& object, const std::string& name);
  /// x[key] of Jinja: the item, else an attribute of that name, else undefined.
  Value get_item(const Value& object, const Value& key);

  /// A namespace that lives until the end of the run (it may contain itself).
  std::shared_ptr<Namespace> make_namespace();

  /// Text of a loop over `items`, for recursive loops.
  Text run_recursive_loop(const Loop& loop, const Value& items);
  /// Text of a macro's or caller's body, given its arguments.
  Text run_macro(const Stmt& macro, const ScopePtr& definition, const Args& args);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  class Nesting;

  [[noreturn]] void stop_at(Position position, const std::string& problem) const;
  Value checked(Value value);

  // Statements (jinja_exec.cpp).
  Flow run_body(const Body& body, const ScopePtr& scope);
  Flow run(const Stmt& stmt, const ScopePtr& scope);
  Flow run_if(const Stmt& stmt, const ScopePtr& scope);
  Flow run_for(const Stmt& stmt, const ScopePtr& scope);
  Flow run_loop(const Stmt& stmt, const ScopePtr& scope, const Value& iterable, int depth0);
  std::vector<Value> loop_items(const Stmt& stmt, const ScopePtr& scope, const Value& iterable);
  void run_with(const Stmt& stmt, const ScopePtr& scope);
  void run_call_block(const Stmt& stmt, const ScopePtr& scope);
  void assign(const Expr& target, const Value& value, Scope& scope);
  Text capture(const Body& body, const ScopePtr& scope);
  Value make_macro(const Stmt& stmt, const ScopePtr& scope);
  void write(const Text& text);
  void bind_arguments(const Stmt& macro, const ScopePtr& scope, const Args& args);

  // Expressions (jinja_eval.cpp).
  Value eval(const Expr& expr, const ScopePtr& scope);
  Value eval_kind(const Expr& expr, const ScopePtr& scope);
  Value eval_name(const Expr& expr, const ScopePtr& scope) const;
  Value eval_sequence(const Expr& expr, const ScopePtr& scope);
  Value eval_dict(const Expr& expr, const ScopePtr& scope);
  Value eval_binary(const Expr& expr, const ScopePtr& scope);
  Value eval_compare(const Expr& expr, const ScopePtr& scope);
  Value eval_concat(const Expr& expr, const ScopePtr& scope);
  Value eval_if(const Expr& expr, const ScopePtr& scope);
  Value eval_item(const Expr& expr, const ScopePtr& scope);
  Value eval_call(const Expr& expr, const ScopePtr& scope, const Value* caller);
  Value eval_filter(const Expr& expr, const ScopePtr& scope, const Value* body);
  Args eval_args(const CallArgs& call, const ScopePtr& scope);

  const std::string& origin_;
  const Value& context_;
  Dict globals_;
  Budget budget_;
  int depth_ = 0;
  Text* out_ = nullptr;
  // Kept to the end and then emptied: they may refer to themselves.
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<ScopePtr> captured_scopes_;
};

}  // namespace llm::jinja
