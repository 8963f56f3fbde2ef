// Chat messages and tools as JSON, rendered by a template that touches all their parts.
#include "fuzz_input.h"
#include "text/chat_template.h"
#include "text/value.h"

namespace llm {
namespace {

constexpr const char* kTemplate = R"({%- if tools %}{% for tool in tools %}{{ tool | tojson }}
{% endfor %}{% endif %}
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\n' }}
{%- if m.content is string %}{{ m.content.split('</think>')[-1].lstrip('\n') }}
{%- else %}{{ m.content | tojson }}{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}
{%- if m.reasoning_content %}{{ m.reasoning_content }}{% endif %}
{%- for call in m.tool_calls or [] %}{% set f = call.function or call %}
{{- f.name }}{{ f.arguments if f.arguments is string else f.arguments | tojson }}{% endfor %}
{{- '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant{% endif %})";

void check_spans(const RenderedPrompt& prompt) {
  size_t end = 0;
  for (const TextSpan& span : prompt.spans) {
    if (span.begin < end || span.end <= span.begin || span.end > prompt.text.size()) std::abort();
    end = span.end;
  }
}

}  // namespace
}  // namespace llm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llm;
  static const ChatTemplate chat = ChatTemplate::parse(kTemplate, "template");
  may_refuse([&] {
    const Value json = parse_json_value(text_of(data, size), "messages");
    ChatInput input;
    const Value* messages = json.find("messages");
    const Value* tools = json.find("tools");
    input.messages = messages != nullptr ? *messages : json;
    if (tools != nullptr) input.tools = *tools;
    input.enable_thinking = size % 2 == 0;
    input.python_tool_content = size % 3 == 0;
    check_spans(chat.render(input));
  });
  return 0;
}
