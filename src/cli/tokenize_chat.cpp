#include "cli/tokenize_chat.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "cli/chat_prompt.h"
#include "cli/options.h"
#include "io/json.h"
#include "text/jinja.h"

namespace llm {
namespace {

void check_keys(const Value& request, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : request.as_dict().entries()) {
    if (std::find(known.begin(), known.end(), key.as_string()) == known.end()) {
      refuse("unknown key \"{}\"; known here: {}", printable(key.as_string()),
             fmt::join(known, ", "));
    }
  }
}

/// The value of a key; nothing where it is absent or null.
std::optional<bool> flag(const Value& request, std::string_view key) {
  const Value* value = request.find(key);
  if (value == nullptr || value->is_none()) return std::nullopt;
  if (!value->is_bool()) {
    refuse("\"{}\": expected true or false, found a value of type {}", key, value->type_name());
  }
  return value->as_bool();
}

std::string chat_line(const Value& request, const ChatRenderer& renderer) {
  check_keys(request, {"messages", "tools", "add_generation_prompt", "enable_thinking",
                       "parse_special_in_content"});
  const bool parse_special = flag(request, "parse_special_in_content").value_or(false);
  ChatInput input;
  input.messages = *request.find("messages");
  const Value* tools = request.find("tools");
  if (tools != nullptr && !tools->is_none()) input.tools = *tools;
  input.add_generation_prompt = flag(request, "add_generation_prompt").value_or(true);
  input.enable_thinking = flag(request, "enable_thinking");
  input.python_tool_content = parse_special;
  const RenderedPrompt prompt = renderer.render(std::move(input));
  return fmt::format("{{\"prompt\":{},\"ids\":[{}]}}", json_quote(prompt.text),
                     fmt::join(renderer.encode(prompt, parse_special), ","));
}

std::string render_line(const Value& request) {
  check_keys(request, {"template", "context"});
  const Value& source = *request.find("template");
  if (!source.is_string()) refuse("\"template\": expected a string");
  const Value* context = request.find("context");
  const Value names = context != nullptr ? *context : Value(Dict());
  if (!names.is_dict()) refuse("\"context\": expected an object");
  const Text text = jinja::Template::parse(source.as_string(), "template").render(names);
  return fmt::format("{{\"text\":{}}}", json_quote(text.str()));
}

bool looks_like_template(const std::string& text) {
  return text.find("{{") != std::string::npos || text.find("{%") != std::string::npos ||
         text.find("{#") != std::string::npos || text.find('\n') != std::string::npos;
}

}  // namespace

std::vector<CLI::Option*> add_tokenize_chat_options(CLI::App& app, TokenizeChatOptions& o) {
  CLI::Option* messages =
      refuse_empty(add_text(app, "--messages", o.messages, "FILE",
                            "JSON: an array of messages, or {\"messages\", \"tools\"}; the model's "
                            "chat template makes the text"));
  CLI::Option* render =
      add_text(app, "--render", o.render, "TEMPLATE",
               "Render a Jinja template and print its text: a file, or the template itself");
  begin_section(app, "With --messages");
  refuse_empty(
      add_text(app, "--tools", o.tools, "FILE", "JSON: an array of tools, as OpenAI's API has it"));
  refuse_empty(add_text(app, "--chat-template", o.chat_template, "FILE",
                        "Jinja template instead of the model's own (also with --jsonl)"));
  add_choice(
      app, "--think", {"on", "off", "auto"},
      [&o](const std::string& word) { o.think = *parse_think(word); },
      "The template's thinking switch (auto: not set)");
  app.add_flag("--no-generation-prompt", o.no_generation_prompt,
               "End after the last message, not with the beginning of an answer");
  app.add_flag("--parse-special-in-content", o.parse_special_in_content,
               "Let messages hold control tokens such as <|im_end|>, as the reference does");
  begin_section(app, "With --render");
  refuse_empty(add_text(app, "--render-context", o.render_context, "FILE.json",
                        "JSON object: the names that the template sees"));
  return {messages, render};
}

void check_tokenize_chat_options(const TokenizeChatOptions& o, bool jsonl) {
  const auto needs = [](bool given, const char* flag, bool there, const char* needed) {
    if (given && !there) refuse("{} goes with {}", flag, needed);
  };
  const bool messages = o.messages.has_value();
  needs(o.tools.has_value(), "--tools", messages, "--messages");
  needs(o.chat_template.has_value(), "--chat-template", messages || jsonl, "--messages or --jsonl");
  needs(o.think != Think::kAuto, "--think", messages,
        "--messages (in --jsonl lines it is \"enable_thinking\")");
  needs(o.no_generation_prompt, "--no-generation-prompt", messages,
        "--messages (in --jsonl lines it is \"add_generation_prompt\": false)");
  needs(o.parse_special_in_content, "--parse-special-in-content", messages,
        "--messages (in --jsonl lines it is \"parse_special_in_content\")");
  needs(o.render_context.has_value(), "--render-context", o.render.has_value(), "--render");
  for (const auto& [flag, file] :
       {std::pair("--messages", &o.messages), std::pair("--tools", &o.tools),
        std::pair("--chat-template", &o.chat_template), std::pair("--render", &o.render),
        std::pair("--render-context", &o.render_context)}) {
    if (*file == "-") refuse("{} -: expected a file (/dev/stdin is one)", flag);
  }
}

std::vector<int32_t> tokenize_messages(const TokenizeChatOptions& options,
                                       const ChatRenderer& renderer, const Log& log) {
  const MessagesFile file = read_chat_files("--messages", *options.messages, options.tools, log);
  ChatInput input;
  input.messages = file.messages;
  input.tools = file.tools;
  input.add_generation_prompt = !options.no_generation_prompt;
  if (options.think != Think::kAuto) input.enable_thinking = options.think == Think::kOn;
  input.python_tool_content = options.parse_special_in_content;
  return renderer.encode(renderer.render(std::move(input)), options.parse_special_in_content);
}

std::string render_template(const TokenizeChatOptions& options, const Log& log) {
  const std::string& given = *options.render;
  const bool is_file = is_listed(given) || !looks_like_template(given);
  const jinja::Template parsed =
      is_file ? jinja::Template::parse(read_named_text("--render", given, log), given)
              : jinja::Template::parse(given, "--render");
  Value context{Dict()};
  if (const auto& path = options.render_context) {
    context = parse_json_value(read_named_text("--render-context", *path, log), *path);
    if (!context.is_dict()) refuse("--render-context {}: expected a JSON object", *path);
  }
  return parsed.render(context).str();
}

std::optional<std::string> ChatLines::answer(std::string_view line) const {
  const auto mentions = [&](std::string_view key) {
    return line.find(key) != std::string_view::npos;
  };
  if (!mentions("\"messages\"") && !mentions("\"template\"")) return std::nullopt;
  const Value request = parse_json_value(line, "request");
  if (request.find("messages") != nullptr) return chat_line(request, renderer());
  if (request.find("template") != nullptr) return render_line(request);
  return std::nullopt;
}

const ChatRenderer& ChatLines::renderer() const {
  std::call_once(once_, [this] { renderer_.emplace(*tokenizer_, source_, *log_); });
  return *renderer_;
}

}  // namespace llm
