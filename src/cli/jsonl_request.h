// One line of `llm run --jsonl`: what is asked, and how it is to be answered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/chat_prompt.h"
#include "cli/run_options.h"
#include "engine/sequence.h"

namespace llm {

struct JsonlRequest {
  Prompt prompt;
  Request request;
  std::vector<std::string> stops;
};

class JsonlReader {
 public:
  /// The options say what a line leaves open. All but the seed outlive the reader.
  JsonlReader(const RunOptions& options, const ModelFiles& files, uint64_t seed, const Log& log)
      : options_(&options), files_(&files), seed_(seed), log_(&log) {}

  /// The line as a JSON object. Throws Error for anything else.
  static Value parse(std::string_view line);
  /// The line's "id" as JSON; its number where it has none. Throws Error for what is neither text
  /// nor a whole number.
  static std::string id_of(const Value& line, int64_t number);

  /// Throws Error for unknown keys, values of another type or out of range, and prompts that can't
  /// be used.
  JsonlRequest request_of(const Value& line);

 private:
  Prompt prompt_of(const Value& line);
  SamplingParams sampling_of(const Value& line) const;

  const RunOptions* options_;
  const ModelFiles* files_;
  uint64_t seed_;
  const Log* log_;
  std::optional<ChatPrompter> prompter_;  // made when a line first needs it
};

}  // namespace llm
