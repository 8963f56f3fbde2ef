// The expressions of Jinja's grammar, over a list of tokens. For jinja_parser.cpp only.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"

namespace llm::jinja {

class ExprParser {
 public:
  ExprParser(std::vector<Token> tokens, const std::string& origin)
      : tokens_(std::move(tokens)), origin_(origin) {}

 protected:
  using Type = Token::Type;

  const Token& current() const { return tokens_[at_]; }
  const Token& look_ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next();
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view op);
  Token expect_name();
  void expect_keyword(std::string_view name);
  void expect_operator(std::string_view op);
  void expect(Type type, std::string_view what);
  [[noreturn]] void stop(const std::string& problem) const { stop(problem, current().position); }
  [[noreturn]] void stop(const std::string& problem, Position position) const {
    refuse_at(origin_, position, problem);
  }

  /// An expression, with or without `a if b else c` at the top.
  ExprPtr parse_expression(bool with_conditional = true);
  /// One expression, or several with commas: a tuple. Ends before the name `end`.
  ExprPtr parse_tuple(bool with_conditional = true, std::string_view end = "",
                      bool in_parentheses = false);
  /// What can be assigned to: names, tuples of names and, for `set`, namespace attributes.
  ExprPtr parse_target(bool with_namespace, std::string_view end = "");
  /// `| name(...)` any number of times; `first_inline`: the first one without its bar.
  ExprPtr parse_filters(ExprPtr operand, bool first_inline = false);

  /// Counts nesting while it lives; stops the parse when it is too deep.
  class Nesting {
   public:
    explicit Nesting(ExprParser& parser);
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;

   private:
    ExprParser& parser_;
  };

  /// Which of them were mentioned since the macro around this place began.
  SpecialNames mentioned_;

 private:
  ExprPtr make(Expr::Kind kind, Position position, std::string text = "") const;
  /// Adds an operand (not null) and keeps count of the height.
  void adopt(Expr& parent, ExprPtr child) const;
  ExprPtr binary(Expr::Kind kind, ExprPtr left, ExprPtr right, std::string text = "") const;

  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters = true);
  ExprPtr parse_primary(bool with_namespace = false);
  ExprPtr parse_named(const Token& token, bool with_namespace);
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr operand);
  ExprPtr parse_filters_and_tests(ExprPtr operand);
  ExprPtr parse_attribute(ExprPtr operand);
  ExprPtr parse_item(ExprPtr operand);
  ExprPtr parse_subscript();
  ExprPtr parse_call(ExprPtr operand);
  ExprPtr parse_test(ExprPtr operand);
  std::string parse_dotted_name();
  void parse_call_args(Expr& node);
  void parse_one_argument(Expr& node);
  void check_target(Expr& target, bool with_namespace) const;
  bool at_tuple_end(std::string_view end) const;
  /// Expressions with commas between them; one comma, also a last one, makes them a tuple.
  struct Items {
    std::vector<ExprPtr> nodes;
    bool is_tuple = false;
  };
  Items parse_items(std::string_view end, const std::function<ExprPtr()>& parse_item);
  ExprPtr tuple_of(Items items, Position position);

  std::vector<Token> tokens_;
  const std::string& origin_;
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace llm::jinja
