// Jinja's grammar: template text to a tree.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja_ast.h"

namespace llm::jinja {

/// Parses a template. Refuses (exit code 2) what Jinja would refuse, and templates nested too
/// deeply, with "ORIGIN: line L, column C: PROBLEM".
Body parse(std::string_view source, const std::string& origin);

}  // namespace llm::jinja
