#include "text/jinja_expr_parser.h"

#include <fmt/format.h>

#include <algorithm>

namespace llm::jinja {

namespace {

constexpr int kMaxNesting = 200;  // brackets, blocks and operators within each other
constexpr int kMaxHeight = 400;   // of one expression's tree; a chain of n operators is n high

}  // namespace

ExprParser::Nesting::Nesting(ExprParser& parser) : parser_(parser) {
  if (++parser_.nesting_ > kMaxNesting) {
    --parser_.nesting_;
    parser_.stop(fmt::format("the template is nested more than {} deep", kMaxNesting));
  }
}

Token ExprParser::next() {
  Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ExprParser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  next();
  return true;
}

bool ExprParser::skip_operator(std::string_view op) {
  if (!current().is_operator(op)) return false;
  next();
  return true;
}

void ExprParser::expect(Type type, std::string_view what) {
  if (current().type != type) {
    stop(fmt::format("expected {}, got {}", what, describe(current())));
  }
  next();
}

Token ExprParser::expect_name() {
  if (current().type != Type::kName) {
    stop(fmt::format("expected a name, got {}", describe(current())));
  }
  return next();
}

void ExprParser::expect_keyword(std::string_view name) {
  if (!skip_name(name)) stop(fmt::format("expected '{}', got {}", name, describe(current())));
}

void ExprParser::expect_operator(std::string_view op) {
  if (!skip_operator(op)) stop(fmt::format("expected '{}', got {}", op, describe(current())));
}

ExprPtr ExprParser::make(Expr::Kind kind, Position position, std::string text) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->position = position;
  node->text = std::move(text);
  return node;
}

void ExprParser::adopt(Expr& parent, ExprPtr child) const {
  parent.height = std::max(parent.height, child->height + 1);
  if (parent.height > kMaxHeight) {
    stop(fmt::format("the expression has more than {} operations within each other", kMaxHeight));
  }
  parent.operands.push_back(std::move(child));
}

ExprPtr ExprParser::binary(Expr::Kind kind, ExprPtr left, ExprPtr right, std::string text) const {
  ExprPtr node = make(kind, left->position, std::move(text));
  adopt(*node, std::move(left));
  adopt(*node, std::move(right));
  return node;
}

ExprPtr ExprParser::parse_expression(bool with_conditional) {
  const Nesting nesting(*this);
  ExprPtr node = parse_or();
  if (!with_conditional) return node;
  while (skip_name("if")) {
    ExprPtr conditional = binary(Expr::Kind::kIf, std::move(node), parse_or());
    if (skip_name("else")) {
      adopt(*conditional, parse_expression());
    } else {
      conditional->operands.push_back(nullptr);
    }
    node = std::move(conditional);
  }
  return node;
}

ExprPtr ExprParser::parse_or() {
  ExprPtr left = parse_and();
  while (skip_name("or")) left = binary(Expr::Kind::kOr, std::move(left), parse_and());
  return left;
}

ExprPtr ExprParser::parse_and() {
  ExprPtr left = parse_not();
  while (skip_name("and")) left = binary(Expr::Kind::kAnd, std::move(left), parse_not());
  return left;
}

ExprPtr ExprParser::parse_not() {
  const Position position = current().position;
  if (!skip_name("not")) return parse_compare();
  const Nesting nesting(*this);
  ExprPtr node = make(Expr::Kind::kNot, position);
  adopt(*node, parse_not());
  return node;
}

ExprPtr ExprParser::parse_compare() {
  ExprPtr first = parse_sum();
  ExprPtr node;
  while (true) {
    std::string op;
    if (current().type == Type::kOperator) {
      for (const std::string_view candidate : {"==", "!=", "<=", ">=", "<", ">"}) {
        if (current().text == candidate) op = candidate;
      }
    } else if (current().is_name("in")) {
      op = "in";
    } else if (current().is_name("not") && look_ahead().is_name("in")) {
      next();
      op = "not in";
    }
    if (op.empty()) return node ? std::move(node) : std::move(first);
    next();
    if (!node) {
      node = make(Expr::Kind::kCompare, first->position);
      adopt(*node, std::move(first));
    }
    node->operators.push_back(op);
    adopt(*node, parse_sum());
  }
}

ExprPtr ExprParser::parse_sum() {
  ExprPtr left = parse_concat();
  while (current().is_operator("+") || current().is_operator("-")) {
    const std::string op = next().text;
    left = binary(Expr::Kind::kBinary, std::move(left), parse_concat(), op);
  }
  return left;
}

ExprPtr ExprParser::parse_concat() {
  ExprPtr first = parse_product();
  if (!current().is_operator("~")) return first;
  ExprPtr node = make(Expr::Kind::kConcat, first->position);
  adopt(*node, std::move(first));
  while (skip_operator("~")) adopt(*node, parse_product());
  return node;
}

ExprPtr ExprParser::parse_product() {
  ExprPtr left = parse_power();
  while (current().is_operator("*") || current().is_operator("/") || current().is_operator("//") ||
         current().is_operator("%")) {
    const std::string op = next().text;
    left = binary(Expr::Kind::kBinary, std::move(left), parse_power(), op);
  }
  return left;
}

ExprPtr ExprParser::parse_power() {
  ExprPtr left = parse_unary();
  while (skip_operator("**")) {
    left = binary(Expr::Kind::kBinary, std::move(left), parse_unary(), "**");
  }
  return left;
}

ExprPtr ExprParser::parse_unary(bool with_filters) {
  const Nesting nesting(*this);
  const Position position = current().position;
  ExprPtr node;
  if (current().is_operator("-") || current().is_operator("+")) {
    const bool is_minus = next().text == "-";
    node = make(is_minus ? Expr::Kind::kNegate : Expr::Kind::kPlus, position);
    adopt(*node, parse_unary(false));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filters ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr ExprParser::parse_named(const Token& token, bool with_namespace) {
  const std::string& name = token.text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    ExprPtr node = make(Expr::Kind::kConst, token.position);
    node->value = Value(name == "true" || name == "True");
    return node;
  }
  if (name == "none" || name == "None") {
    ExprPtr node = make(Expr::Kind::kConst, token.position);
    node->value = Value::none();
    return node;
  }
  if (with_namespace && skip_operator(".")) {
    ExprPtr node = make(Expr::Kind::kNamespace, token.position, name);
    node->attribute = expect_name().text;
    return node;
  }
  if (name == "varargs") mentioned_.varargs = true;
  if (name == "kwargs") mentioned_.kwargs = true;
  if (name == "caller") mentioned_.caller = true;
  return make(Expr::Kind::kName, token.position, name);
}

ExprPtr ExprParser::parse_primary(bool with_namespace) {
  const Token token = current();
  if (token.type == Type::kName) {
    next();
    return parse_named(token, with_namespace);
  }
  if (token.type == Type::kString) {
    std::string joined;
    while (current().type == Type::kString) joined += next().text;
    ExprPtr node = make(Expr::Kind::kConst, token.position);
    node->value = Value(std::move(joined));
    return node;
  }
  if (token.type == Type::kNumber) {
    next();
    ExprPtr node = make(Expr::Kind::kConst, token.position);
    node->value = token.value;
    return node;
  }
  if (skip_operator("(")) {
    ExprPtr node = parse_tuple(true, "", true);
    expect_operator(")");
    return node;
  }
  if (token.is_operator("[")) return parse_list();
  if (token.is_operator("{")) return parse_dict();
  stop(fmt::format("unexpected {}", describe(token)));
}

bool ExprParser::at_tuple_end(std::string_view end) const {
  const Type type = current().type;
  return type == Type::kVariableEnd || type == Type::kBlockEnd || current().is_operator(")") ||
         (!end.empty() && current().is_name(end));
}

ExprParser::Items ExprParser::parse_items(std::string_view end,
                                          const std::function<ExprPtr()>& parse_item) {
  Items items;
  while (true) {
    if (!items.nodes.empty()) expect_operator(",");
    if (at_tuple_end(end)) break;
    items.nodes.push_back(parse_item());
    if (!current().is_operator(",")) break;
    items.is_tuple = true;
  }
  return items;
}

ExprPtr ExprParser::tuple_of(Items items, Position position) {
  ExprPtr node = make(Expr::Kind::kTuple, position);
  for (ExprPtr& item : items.nodes) adopt(*node, std::move(item));
  return node;
}

ExprPtr ExprParser::parse_tuple(bool with_conditional, std::string_view end, bool in_parentheses) {
  const Position position = current().position;
  Items items = parse_items(end, [&] { return parse_expression(with_conditional); });
  if (!items.is_tuple && !items.nodes.empty()) return std::move(items.nodes[0]);
  if (!items.is_tuple && !in_parentheses) {
    stop(fmt::format("Expected an expression, got {}", describe(current())));
  }
  return tuple_of(std::move(items), position);
}

ExprPtr ExprParser::parse_target(bool with_namespace, std::string_view end) {
  const Position position = current().position;
  Items items = parse_items(end, [&] { return parse_primary(with_namespace); });
  if (items.nodes.empty()) {
    stop(fmt::format("Expected an expression, got {}", describe(current())));
  }
  for (const ExprPtr& item : items.nodes) check_target(*item, with_namespace);
  if (!items.is_tuple) return std::move(items.nodes[0]);
  return tuple_of(std::move(items), position);
}

void ExprParser::check_target(Expr& target, bool with_namespace) const {
  if (target.kind == Expr::Kind::kName) return;
  if (target.kind == Expr::Kind::kNamespace && with_namespace) return;
  if (target.kind != Expr::Kind::kTuple) stop("this can't be assigned to", target.position);
  for (const ExprPtr& item : target.operands) check_target(*item, with_namespace);
}

ExprPtr ExprParser::parse_list() {
  ExprPtr node = make(Expr::Kind::kList, next().position);
  while (!current().is_operator("]")) {
    if (!node->operands.empty()) expect_operator(",");
    if (current().is_operator("]")) break;
    adopt(*node, parse_expression());
  }
  expect_operator("]");
  return node;
}

ExprPtr ExprParser::parse_dict() {
  ExprPtr node = make(Expr::Kind::kDict, next().position);
  while (!current().is_operator("}")) {
    if (!node->operands.empty()) expect_operator(",");
    if (current().is_operator("}")) break;
    adopt(*node, parse_expression());
    expect_operator(":");
    adopt(*node, parse_expression());
  }
  expect_operator("}");
  return node;
}

ExprPtr ExprParser::parse_postfix(ExprPtr operand) {
  while (current().type == Type::kOperator) {
    if (current().text == ".") {
      operand = parse_attribute(std::move(operand));
    } else if (current().text == "[") {
      operand = parse_item(std::move(operand));
    } else if (current().text == "(") {
      operand = parse_call(std::move(operand));
    } else {
      break;
    }
  }
  return operand;
}

ExprPtr ExprParser::parse_filters_and_tests(ExprPtr operand) {
  while (true) {
    if (current().is_operator("|")) {
      operand = parse_filters(std::move(operand));
    } else if (current().is_name("is")) {
      operand = parse_test(std::move(operand));
    } else if (current().is_operator("(")) {
      operand = parse_call(std::move(operand));
    } else {
      return operand;
    }
  }
}

ExprPtr ExprParser::parse_attribute(ExprPtr operand) {
  const Position position = next().position;
  const Token token = next();
  ExprPtr node;
  if (token.type == Type::kName) {
    node = make(Expr::Kind::kAttribute, position, token.text);
    adopt(*node, std::move(operand));
    return node;
  }
  if (token.type != Type::kNumber || token.value.is_float()) {
    stop("expected name or number", token.position);
  }
  node = make(Expr::Kind::kItem, position);
  ExprPtr index = make(Expr::Kind::kConst, token.position);
  index->value = token.value;
  adopt(*node, std::move(operand));
  adopt(*node, std::move(index));
  return node;
}

ExprPtr ExprParser::parse_item(ExprPtr operand) {
  ExprPtr node = make(Expr::Kind::kItem, next().position);
  adopt(*node, std::move(operand));
  std::vector<ExprPtr> keys;
  while (!current().is_operator("]")) {
    if (!keys.empty()) expect_operator(",");
    keys.push_back(parse_subscript());
  }
  expect_operator("]");
  if (keys.size() == 1) {
    adopt(*node, std::move(keys[0]));
    return node;
  }
  ExprPtr tuple = make(Expr::Kind::kTuple, node->position);
  for (ExprPtr& key : keys) adopt(*tuple, std::move(key));
  adopt(*node, std::move(tuple));
  return node;
}

ExprPtr ExprParser::parse_subscript() {
  ExprPtr slice = make(Expr::Kind::kSlice, current().position);
  const auto add_part = [&](ExprPtr part) {
    if (part) {
      adopt(*slice, std::move(part));
    } else {
      slice->operands.push_back(nullptr);
    }
  };
  const auto at_part_end = [&] {
    return current().is_operator(":") || current().is_operator("]") || current().is_operator(",");
  };
  ExprPtr start;
  if (!current().is_operator(":")) {
    start = parse_expression();
    if (!current().is_operator(":")) return start;
  }
  next();
  add_part(std::move(start));
  add_part(at_part_end() ? nullptr : parse_expression());
  const bool has_step = skip_operator(":") && !at_part_end();
  add_part(has_step ? parse_expression() : nullptr);
  return slice;
}

ExprPtr ExprParser::parse_call(ExprPtr operand) {
  ExprPtr node = make(Expr::Kind::kCall, current().position);
  adopt(*node, std::move(operand));
  parse_call_args(*node);
  return node;
}

void ExprParser::parse_call_args(Expr& node) {
  const Nesting nesting(*this);
  expect_operator("(");
  bool need_comma = false;
  while (!current().is_operator(")")) {
    if (need_comma) {
      expect_operator(",");
      if (current().is_operator(")")) break;
    }
    parse_one_argument(node);
    need_comma = true;
  }
  expect_operator(")");
}

void ExprParser::parse_one_argument(Expr& node) {
  CallArgs& call = node.call;
  const auto ensure = [&](bool allowed) {
    if (!allowed) stop("invalid syntax for function call expression", node.position);
  };
  const auto parse_value = [&] {
    ExprPtr value = parse_expression();
    node.height = std::max(node.height, value->height + 1);
    return value;
  };
  if (skip_operator("*")) {
    ensure(!call.star && !call.double_star);
    call.star = parse_value();
  } else if (skip_operator("**")) {
    ensure(!call.double_star);
    call.double_star = parse_value();
  } else if (current().type == Type::kName && look_ahead().is_operator("=")) {
    ensure(!call.double_star);
    std::string name = next().text;
    next();
    call.keywords.emplace_back(std::move(name), parse_value());
  } else {
    ensure(!call.star && !call.double_star && call.keywords.empty());
    call.args.push_back(parse_value());
  }
}

std::string ExprParser::parse_dotted_name() {
  std::string name = expect_name().text;
  while (skip_operator(".")) name += "." + expect_name().text;
  return name;
}

ExprPtr ExprParser::parse_filters(ExprPtr operand, bool first_inline) {
  while (first_inline || skip_operator("|")) {
    first_inline = false;
    const Position position = current().position;
    ExprPtr node = make(Expr::Kind::kFilter, position, parse_dotted_name());
    if (operand) adopt(*node, std::move(operand));
    if (current().is_operator("(")) parse_call_args(*node);
    operand = std::move(node);
  }
  return operand;
}

ExprPtr ExprParser::parse_test(ExprPtr operand) {
  const Position position = next().position;
  const bool negated = skip_name("not");
  ExprPtr node = make(Expr::Kind::kTest, position, parse_dotted_name());
  adopt(*node, std::move(operand));
  const Token& token = current();
  const bool is_word = token.type == Type::kName && token.text != "else" && token.text != "or" &&
                       token.text != "and";
  if (token.is_operator("(")) {
    parse_call_args(*node);
  } else if (is_word || token.type == Type::kString || token.type == Type::kNumber ||
             token.is_operator("[") || token.is_operator("{")) {
    if (token.is_name("is")) stop("You cannot chain multiple tests with is");
    ExprPtr argument = parse_postfix(parse_primary());
    node->height = std::max(node->height, argument->height + 1);
    node->call.args.push_back(std::move(argument));
  }
  if (!negated) return node;
  ExprPtr negation = make(Expr::Kind::kNot, position);
  adopt(*negation, std::move(node));
  return negation;
}

}  // namespace llm::jinja
