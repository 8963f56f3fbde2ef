// The options of `llm run`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"

namespace CLI {
class App;
}

namespace llm {

enum class Think { kAuto, kOn, kOff };

struct RunOptions {
  CommonOptions common;
  SamplingOptions sampling;

  // What to answer
  std::optional<std::string> prompt;  // PROMPT
  std::optional<std::string> file;
  std::optional<std::string> messages;   // file
  std::optional<std::string> token_ids;  // "1 2 3"
  std::optional<std::string> system;
  std::optional<std::string> chat_template;  // file
  bool raw = false;
  bool escape = false;
  bool keep_newline = false;
  bool strip_newline = false;
  bool parse_special_in_content = false;
  Think think = Think::kAuto;

  // When to stop
  std::optional<int64_t> max_tokens;
  std::vector<std::string> stops;
  bool ignore_eos = false;

  // What to report
  bool show_thinking = false;
  bool print_ids = false;
  bool json = false;
  bool stats = false;
  bool trace_shapes = false;
  std::optional<std::string> logits_out;  // .npy file
};

void add_run_options(CLI::App& app, RunOptions& options);

/// Refuses (exit code 2) options that contradict each other; settles what one implies of another.
void check_run_options(RunOptions& options);

/// Ill-formed UTF-8 of --system and --stop becomes U+FFFD, with one warning for each option.
void repair_texts(RunOptions& options, const Log& log);

/// Ids separated by blanks or commas. Refuses anything else, naming the part.
std::vector<int32_t> parse_token_ids(const std::string& text);

}  // namespace llm
