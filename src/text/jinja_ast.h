// The tree of a parsed template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_lexer.h"
#include "text/value.h"

namespace llm::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

/// Arguments of a call, filter or test: (args, *star, name=..., **double_star).
struct CallArgs {
  std::vector<ExprPtr> args;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
  ExprPtr star;
  ExprPtr double_star;
};

/// An expression. What the fields hold depends on the kind.
struct Expr {
  enum class Kind {
    kConst,      // value
    kName,       // text
    kNamespace,  // text . attribute, only as the target of `set`
    kList,       // operands
    kTuple,      // operands
    kDict,       // operands: key, value, key, value ...
    kNegate,     // operands[0]
    kPlus,       // operands[0]
    kNot,        // operands[0]
    kBinary,     // operands[0] text operands[1]
    kCompare,    // operands[0] operators[0] operands[1] operators[1] ...
    kConcat,     // operands joined by ~
    kAnd,        // operands[0], operands[1]
    kOr,         // operands[0], operands[1]
    kIf,         // operands[0] if operands[1] else operands[2], which may be null
    kAttribute,  // operands[0] . text
    kItem,       // operands[0] [ operands[1] ]
    kSlice,      // start, stop, step in operands; each may be null
    kCall,       // operands[0] ( call )
    kFilter,     // operands[0] | text ( call ); no operand: the body of a block
    kTest,       // operands[0] is text ( call )
  };
  Kind kind = Kind::kConst;
  Position position;
  int height = 1;  // of the tree below
  std::string text;
  std::string attribute;
  Value value;
  std::vector<ExprPtr> operands;
  std::vector<std::string> operators;
  CallArgs call;
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

/// Names that Jinja gives to a macro whose body mentions them.
struct SpecialNames {
  bool varargs = false;
  bool kwargs = false;
  bool caller = false;
};

struct Param {
  std::string name;
  ExprPtr default_value;  // may be null
};

/// A statement. What the fields hold depends on the kind.
struct Stmt {
  enum class Kind {
    kData,      // text
    kPrint,     // exprs
    kIf,        // exprs[i] guards bodies[i]; one more body is the else
    kFor,       // target in exprs[0], exprs[1] the condition or null; body, else; recursive
    kSet,       // target = exprs[0]
    kSetBlock,  // target = body through exprs[0], a filter or null
    kWith,      // targets[i] = exprs[i]; body
    kMacro,     // text ( params ) body
    kCall,      // exprs[0] is the call, params those of the caller; body
    kFilter,    // body through exprs[0]
    kScope,     // body in a scope of its own (generation, block, autoescape)
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kData;
  Position position;
  std::string text;
  std::vector<ExprPtr> targets;
  std::vector<ExprPtr> exprs;
  std::vector<Body> bodies;
  std::vector<Param> params;
  bool recursive = false;
  SpecialNames uses;  // kMacro and kCall: what the body mentions
};

}  // namespace llm::jinja
