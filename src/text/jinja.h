// Jinja templates, rendered as transformers renders chat templates.
//
// That is jinja2's immutable sandbox with trim_blocks and lstrip_blocks, the loop controls, the
// `generation` tag, transformers' own tojson, and no autoescape. Not supported: other templates
// (include, import, extends) and the filters filesizeformat, pprint, random, striptags, urlize,
// wordwrap and xmlattr. Different from there: arithmetic on integers beyond 64 bits is an error;
// `e` and `safe` give plain text, which `+` doesn't escape again; upper and lower case are known
// for Latin, Greek, Cyrillic and Armenian. scripts/fuzz_templates.py compares the rest.
#pragma once

#include <memory>
#include <string>

#include "text/value.h"

namespace llm::jinja {

/// Immutable; may be used from several threads at once.
class Template {
 public:
  /// Refuses (exit code 2) what isn't a template: "ORIGIN: line L, column C: PROBLEM".
  static Template parse(const std::string& source, std::string origin);

  /// Renders with the names in `context` (a dict). Refuses (exit code 2) in the same form when the
  /// template raises an error, computes something impossible or exceeds the limits on work, depth
  /// and size.
  Text render(const Value& context) const;

 private:
  struct State;
  explicit Template(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace llm::jinja
