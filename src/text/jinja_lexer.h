// Tokens of a Jinja template, with the whitespace rules of trim_blocks and lstrip_blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/value.h"

namespace llm::jinja {

/// A place in the template's text, both from 1. Columns count characters.
struct Position {
  int line = 1;
  int column = 1;
};

struct Token {
  enum class Type {
    kData,           // template text between tags
    kVariableBegin,  // {{
    kVariableEnd,    // }}
    kBlockBegin,     // {%
    kBlockEnd,       // %}
    kName,
    kString,  // text: what the literal stands for
    kNumber,  // value: the number
    kOperator,
    kEnd,
  };
  Type type = Type::kEnd;
  std::string text;
  Value value;
  Position position;

  bool is(Type t, std::string_view t_text) const { return type == t && text == t_text; }
  bool is_operator(std::string_view op) const { return is(Type::kOperator, op); }
  bool is_name(std::string_view name) const { return is(Type::kName, name); }
};

/// How a message calls the token.
std::string describe(const Token& token);

/// Refuses (exit code 2) with "ORIGIN: line L, column C: PROBLEM".
[[noreturn]] void refuse_at(const std::string& origin, Position position,
                            const std::string& problem);

/// All tokens, a kEnd last. `source` must be UTF-8.
std::vector<Token> tokenize(std::string_view source, const std::string& origin);

}  // namespace llm::jinja
