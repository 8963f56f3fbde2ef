#include "text/jinja.h"

#include "text/jinja_parser.h"
#include "text/jinja_runtime.h"

namespace llm::jinja {

struct Template::State {
  std::string origin;
  Body body;
};

Template Template::parse(const std::string& source, std::string origin) {
  auto state = std::make_shared<State>();
  state->origin = std::move(origin);
  state->body = jinja::parse(source, state->origin);
  return Template(std::move(state));
}

Text Template::render(const Value& context) const {
  return Interpreter(state_->origin, context).render(state_->body);
}

}  // namespace llm::jinja
