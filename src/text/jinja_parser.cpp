#include "text/jinja_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "text/jinja_expr_parser.h"

namespace llm::jinja {

namespace {

using EndTags = std::initializer_list<std::string_view>;

class Parser : public ExprParser {
 public:
  using ExprParser::ExprParser;

  Body parse_template() {
    Body body = parse_until({});
    return body;
  }

 private:
  StmtPtr make(Stmt::Kind kind, Position position, std::string text = "") const {
    auto node = std::make_unique<Stmt>();
    node->kind = kind;
    node->position = position;
    node->text = std::move(text);
    return node;
  }

  bool at_one_of(const EndTags& tags) const {
    return current().type == Type::kName &&
           std::find(tags.begin(), tags.end(), current().text) != tags.end();
  }

  /// Statements up to `{% TAG`, where TAG is one of `ends` and becomes the current token; with no
  /// ends, up to the end of the template.
  Body parse_until(EndTags ends) {
    Body body;
    while (current().type != Type::kEnd) {
      const Token token = next();
      if (token.type == Type::kData) {
        body.push_back(make(Stmt::Kind::kData, token.position, token.text));
      } else if (token.type == Type::kVariableBegin) {
        StmtPtr print = make(Stmt::Kind::kPrint, current().position);
        print->exprs.push_back(parse_tuple());
        expect(Type::kVariableEnd, "'}}'");
        body.push_back(std::move(print));
      } else {
        if (at_one_of(ends)) return body;
        if (StmtPtr statement = parse_statement()) body.push_back(std::move(statement));
        expect(Type::kBlockEnd, "'%}'");
      }
    }
    if (ends.size() > 0) stop(unclosed_message("Unexpected end of template.", ends));
    return body;
  }

  std::string unclosed_message(std::string message, const EndTags& ends) const {
    std::string tags;
    for (const std::string_view tag : ends) {
      tags += fmt::format("{}'{}'", tags.empty() ? "" : " or ", tag);
    }
    if (!tags.empty()) {
      message += fmt::format(" Jinja was looking for the following tags: {}.", tags);
    }
    if (!open_tags_.empty()) {
      message +=
          fmt::format(" The innermost block that needs to be closed is '{}'.", open_tags_.back());
    }
    return message;
  }

  /// The body of a block tag whose `%}` comes next, up to and with its end tag's name.
  Body parse_body(EndTags ends) {
    skip_operator(":");
    expect(Type::kBlockEnd, "'%}'");
    return parse_until(ends);
  }

  Body parse_whole_body(std::string_view end) {
    Body body = parse_body({end});
    next();
    return body;
  }

  StmtPtr parse_statement() {
    const Nesting nesting(*this);
    if (current().type != Type::kName) stop("tag name expected");
    const Token tag = next();
    open_tags_.push_back(tag.text);
    StmtPtr statement = parse_tag(tag);
    open_tags_.pop_back();
    return statement;
  }

  StmtPtr parse_tag(const Token& tag) {
    const std::string& name = tag.text;
    if (name == "if") return parse_if(tag);
    if (name == "for") return parse_for(tag);
    if (name == "set") return parse_set(tag);
    if (name == "macro") return parse_macro(tag);
    if (name == "call") return parse_call_block(tag);
    if (name == "filter") return parse_filter_block(tag);
    if (name == "with") return parse_with(tag);
    if (name == "print") return parse_print(tag);
    if (name == "generation") return parse_scope(tag, "endgeneration");
    if (name == "block") return parse_block(tag);
    if (name == "autoescape") return parse_autoescape(tag);
    if (name == "break" || name == "continue") return parse_jump(tag);
    if (name == "include" || name == "import" || name == "from" || name == "extends") {
      stop(fmt::format("'{}' needs other templates, which a chat template has none of", name),
           tag.position);
    }
    open_tags_.pop_back();
    stop(unclosed_message(fmt::format("Encountered unknown tag '{}'.", name), {}), tag.position);
  }

  StmtPtr parse_if(const Token& tag) {
    StmtPtr node = make(Stmt::Kind::kIf, tag.position);
    while (true) {
      node->exprs.push_back(parse_tuple(false));
      node->bodies.push_back(parse_body({"elif", "else", "endif"}));
      const std::string end = next().text;
      if (end == "elif") continue;
      if (end == "else") node->bodies.push_back(parse_whole_body("endif"));
      return node;
    }
  }

  StmtPtr parse_for(const Token& tag) {
    StmtPtr node = make(Stmt::Kind::kFor, tag.position);
    node->targets.push_back(parse_target(false, "in"));
    expect_keyword("in");
    node->exprs.push_back(parse_tuple(false, "recursive"));
    node->exprs.push_back(skip_name("if") ? parse_expression() : nullptr);
    node->recursive = skip_name("recursive");
    ++loops_;
    node->bodies.push_back(parse_body({"endfor", "else"}));
    --loops_;
    if (next().text == "else") node->bodies.push_back(parse_whole_body("endfor"));
    return node;
  }

  StmtPtr parse_jump(const Token& tag) {
    if (loops_ == 0) stop(fmt::format("'{}' outside a loop", tag.text), tag.position);
    return make(tag.text == "break" ? Stmt::Kind::kBreak : Stmt::Kind::kContinue, tag.position);
  }

  StmtPtr parse_set(const Token& tag) {
    StmtPtr node = make(Stmt::Kind::kSet, tag.position);
    node->targets.push_back(parse_target(true));
    if (skip_operator("=")) {
      node->exprs.push_back(parse_tuple());
      return node;
    }
    node->kind = Stmt::Kind::kSetBlock;
    node->exprs.push_back(parse_filters(nullptr));
    node->bodies.push_back(parse_whole_body("endset"));
    return node;
  }

  std::vector<Param> parse_params() {
    std::vector<Param> params;
    expect_operator("(");
    while (!current().is_operator(")")) {
      if (!params.empty()) expect_operator(",");
      Param param{expect_name().text, nullptr};
      if (skip_operator("=")) {
        param.default_value = parse_expression();
      } else if (!params.empty() && params.back().default_value) {
        stop("non-default argument follows default argument");
      }
      params.push_back(std::move(param));
    }
    expect_operator(")");
    return params;
  }

  /// The body of a macro or caller: a function of its own, so loops outside don't count.
  void parse_function_body(Stmt& node, std::string_view end) {
    const int loops_outside = std::exchange(loops_, 0);
    const SpecialNames outside = std::exchange(mentioned_, {});
    node.bodies.push_back(parse_whole_body(end));
    node.uses = mentioned_;
    mentioned_ = {outside.varargs || node.uses.varargs, outside.kwargs || node.uses.kwargs,
                  outside.caller || node.uses.caller};
    loops_ = loops_outside;
  }

  StmtPtr parse_macro(const Token& tag) {
    StmtPtr node = make(Stmt::Kind::kMacro, tag.position, expect_name().text);
    node->params = parse_params();
    parse_function_body(*node, "endmacro");
    return node;
  }

  StmtPtr parse_call_block(const Token& tag) {
    StmtPtr node = make(Stmt::Kind::kCall, tag.position);
    if (current().is_operator("(")) node->params = parse_params();
    ExprPtr call = parse_expression();
    if (call->kind != Expr::Kind::kCall) stop("expected call", tag.position);
    node->exprs.push_back(std::move(call));
    parse_function_body(*node, "endcall");
    return node;
  }

  StmtPtr parse_filter_block(const Token& tag) {
    StmtPtr node = make(Stmt::Kind::kFilter, tag.position);
    node->exprs.push_back(parse_filters(nullptr, true));
    node->bodies.push_back(parse_whole_body("endfilter"));
    return node;
  }

  StmtPtr parse_with(const Token& tag) {
    StmtPtr node = make(Stmt::Kind::kWith, tag.position);
    while (current().type != Type::kBlockEnd) {
      if (!node->targets.empty()) expect_operator(",");
      node->targets.push_back(parse_target(false));
      expect_operator("=");
      node->exprs.push_back(parse_expression());
    }
    node->bodies.push_back(parse_whole_body("endwith"));
    return node;
  }

  StmtPtr parse_print(const Token& tag) {
    StmtPtr node = make(Stmt::Kind::kPrint, tag.position);
    while (current().type != Type::kBlockEnd) {
      if (!node->exprs.empty()) expect_operator(",");
      node->exprs.push_back(parse_expression());
    }
    return node;
  }

  StmtPtr parse_scope(const Token& tag, std::string_view end) {
    StmtPtr node = make(Stmt::Kind::kScope, tag.position);
    node->bodies.push_back(parse_whole_body(end));
    return node;
  }

  StmtPtr parse_block(const Token& tag) {
    const std::string name = expect_name().text;
    skip_name("scoped");
    skip_name("required");
    StmtPtr node = parse_scope(tag, "endblock");
    skip_name(name);
    return node;
  }

  StmtPtr parse_autoescape(const Token& tag) {
    parse_expression();
    return parse_scope(tag, "endautoescape");
  }

  std::vector<std::string> open_tags_;
  int loops_ = 0;  // loops around this place
};

}  // namespace

Body parse(std::string_view source, const std::string& origin) {
  return Parser(tokenize(source, origin), origin).parse_template();
}

}  // namespace llm::jinja
