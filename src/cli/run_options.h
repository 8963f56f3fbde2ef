// The options of `llm run`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/answer_options.h"
#include "cli/engine_options.h"
#include "cli/options.h"

namespace CLI {
class App;
}

namespace llm {

struct RunOptions {
  CommonOptions common;
  SamplingOptions sampling;
  AnswerOptions answer;
  EngineFlags engine;

  // What to answer
  std::optional<std::string> prompt;  // PROMPT
  std::optional<std::string> file;
  std::optional<std::string> messages;   // file
  std::optional<std::string> token_ids;  // "1 2 3"
  bool raw = false;
  bool escape = false;
  bool keep_newline = false;
  bool strip_newline = false;

  // Many requests
  std::optional<std::string> jsonl;  // file of requests
  std::optional<std::string> out;    // file of answers
  bool resume = false;

  bool ignore_eos = false;

  // What to report
  bool show_thinking = false;
  bool print_ids = false;
  bool json = false;
  std::optional<int64_t> logprobs;  // how many of the most probable ids
  bool stats = false;
  bool trace_shapes = false;
  std::optional<std::string> logits_out;  // .npy file
};

void add_run_options(CLI::App& app, RunOptions& options);

/// Refuses (exit code 2) options that contradict each other; settles what one implies of another.
void check_run_options(RunOptions& options);

/// Ids separated by blanks or commas. Refuses anything else, naming the part.
std::vector<int32_t> parse_token_ids(const std::string& text);

}  // namespace llm
