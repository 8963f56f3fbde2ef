// A template: parsed, and rendered with a small context.
#include "fuzz_input.h"
#include "text/jinja.h"
#include "text/value.h"

namespace llm {
namespace {

constexpr std::string_view kContext = R"({
  "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi \u4e2d"},
               {"role": "assistant", "content": "<think>\nx\n</think>\n\nyo", "tool_calls":
                [{"function": {"name": "f", "arguments": {"a": [1, 2.5, null, true]}}}]}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"z": 1, "a": 2}}}],
  "add_generation_prompt": true, "n": -3, "x": 0.5, "big": 123456789012345678901234567890,
  "s": "a b\tc", "empty": {}, "list": [3, 1, 2]})";

}  // namespace
}  // namespace llm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llm;
  static const Value context = parse_json_value(kContext, "context");
  may_refuse([&] {
    jinja::Template::parse(std::string(text_of(data, size)), "template").render(context);
  });
  return 0;
}
