// What `llm run` and `llm chat` share beside the model: the template's options, when an answer
// ends, and what is said about the sampling.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"

namespace CLI {
class App;
}

namespace llm {

enum class Think { kAuto, kOn, kOff };

struct AnswerOptions {
  std::optional<std::string> system;
  std::optional<std::string> chat_template;  // file
  bool parse_special_in_content = false;
  std::optional<std::string> tools;  // file
  Think think = Think::kAuto;

  std::optional<int64_t> think_budget;
  std::optional<int64_t> max_tokens;
  std::vector<std::string> stops;
  bool loop_guard = true;
};

/// --system, --tools, --chat-template, --parse-special-in-content, --think.
void add_template_options(CLI::App& app, AnswerOptions& options);
/// --max-tokens, --think-budget, --stop, --no-loop-guard.
void add_stop_options(CLI::App& app, AnswerOptions& options);
/// --max-tokens and --think-budget alone.
void add_length_options(CLI::App& app, AnswerOptions& options);

/// "on", "off" or "auto".
std::string_view name_of(Think think);
/// Its inverse; nothing for other words.
std::optional<Think> parse_think(const std::string& word);

/// Refuses (exit code 2) what can't be used whatever the rest says.
void check_answer_options(const AnswerOptions& options);

/// Ill-formed UTF-8 of --system and --stop becomes U+FFFD, with one warning for each option.
void repair_texts(AnswerOptions& options, const Log& log);

/// 53 random bits, which every JSON reader keeps. From the system itself: what std::random_device
/// calls would tie the program to a newer libc.
uint64_t random_seed();

/// With --verbose: each sampling value and where it comes from.
void say_sampling(const SamplingOptions& flags, const SamplingParams& sampling,
                  const GenerationConfig& defaults, const Log& log);

/// Warns where thinking and greedy decoding are both asked for.
void warn_greedy_thinking(Think think, const SamplingOptions& flags, const Log& log);

}  // namespace llm
