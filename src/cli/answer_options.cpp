#include "cli/answer_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <limits>

#include "base/error.h"
#include "text/utf8.h"

namespace llm {

void add_template_options(CLI::App& app, AnswerOptions& o) {
  begin_section(app, "Conversation");
  add_text(app, "--system", o.system, "TEXT", "System message");
  refuse_empty(add_text(app, "--tools", o.tools, "FILE",
                        "JSON: an array of tools that the model may call, as OpenAI's API has it"));
  refuse_empty(add_text(app, "--chat-template", o.chat_template, "FILE",
                        "Jinja template instead of the model's own"));
  app.add_flag(
      "--parse-special-in-content", o.parse_special_in_content,
      "Let messages hold control tokens such as <|im_end|> (otherwise they are plain text)");
  add_choice(
      app, "--think", {"on", "off", "auto"},
      [&o](const std::string& word) { o.think = *parse_think(word); },
      "Whether the model thinks first (auto: the template's default)");
}

void add_length_options(CLI::App& app, AnswerOptions& o) {
  add_integer(
      app, "-n,--max-tokens", o.max_tokens, 0, std::numeric_limits<int32_t>::max(),
      "Most tokens to generate, the final eos included; 0 = prefill only (default: until eos "
      "or the context is full)");
  add_integer(app, "--think-budget", o.think_budget, 0, std::numeric_limits<int32_t>::max(),
              "Most tokens of a thought, <think> and </think> included: a longer one is ended with "
              "a newline and </think>, and the answer follows");
}

void add_stop_options(CLI::App& app, AnswerOptions& o) {
  begin_section(app, "Where the answer ends");
  add_length_options(app, o);
  app.add_option("--stop", o.stops, "End the answer before this text (repeatable)")
      ->type_name("TEXT")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag_callback(
      "--no-loop-guard", [&o] { o.loop_guard = false; },
      "Let an answer that repeats itself go on. Otherwise it ends, which is said, once one piece "
      "of text (up to 512 tokens) has come 64 times in a row, but not within 1024 tokens and at "
      "the latest after 2048 tokens of exact repetition");
}

std::string_view name_of(Think think) {
  switch (think) {
    case Think::kOn:
      return "on";
    case Think::kOff:
      return "off";
    case Think::kAuto:
      return "auto";
  }
  return {};
}

std::optional<Think> parse_think(const std::string& word) {
  if (word == "on") return Think::kOn;
  if (word == "off") return Think::kOff;
  if (word == "auto") return Think::kAuto;
  return std::nullopt;
}

void check_answer_options(const AnswerOptions& o) {
  if (o.tools == "-") refuse("--tools -: expected a file (/dev/stdin is one)");
  if (o.chat_template == "-") refuse("--chat-template -: expected a file (/dev/stdin is one)");
  for (const std::string& stop : o.stops) {
    if (stop.empty()) refuse("--stop \"\": expected some text");
  }
}

void repair_texts(AnswerOptions& o, const Log& log) {
  const auto repair = [&](std::string& text) {
    bool replaced = false;
    text = replace_invalid_utf8(text, &replaced);
    return replaced;
  };
  constexpr const char* kMessage = "{} is not valid UTF-8: ill-formed parts became U+FFFD";
  if (o.system && repair(*o.system)) log.warn(kMessage, "--system");
  int64_t stops_replaced = 0;
  for (std::string& stop : o.stops) stops_replaced += repair(stop);
  if (stops_replaced > 0) log.warn(kMessage, "--stop");
}

uint64_t random_seed() {
  uint64_t bits = 0;
  if (::getentropy(&bits, sizeof bits) != 0) fail("the system gives no random numbers: see --seed");
  return bits >> 11;
}

void say_sampling(const SamplingOptions& flags, const SamplingParams& sampling,
                  const GenerationConfig& defaults, const Log& log) {
  const auto origin = [&](bool flag, bool file) {
    return flag ? "flag" : file ? "generation_config.json" : "default";
  };
  log.detail("temperature {} ({}), top-k {} ({}), top-p {} ({}), min-p {} ({})",
             sampling.temperature,
             origin(flags.temperature || flags.greedy, defaults.temperature.has_value()),
             sampling.top_k, origin(flags.top_k.has_value(), defaults.top_k.has_value()),
             sampling.top_p, origin(flags.top_p.has_value(), defaults.top_p.has_value()),
             sampling.min_p, origin(flags.min_p.has_value(), defaults.min_p.has_value()));
}

void warn_greedy_thinking(Think think, const SamplingOptions& flags, const Log& log) {
  const bool asked_greedy = flags.greedy || (flags.temperature && *flags.temperature == 0);
  if (think != Think::kOn || !asked_greedy) return;
  log.warn(
      "greedy decoding with thinking on can repeat itself without end; leave out --greedy "
      "or --temp 0 for the model's own settings");
}

}  // namespace llm
