// The prompt of `llm run` as ids: raw text, ids as given, or a rendered chat.
#pragma once

#include <cstdint>
#include <vector>

#include "base/log.h"
#include "cli/run_options.h"
#include "engine/session.h"
#include "text/reasoning.h"

namespace llm {

struct Prompt {
  std::vector<int32_t> ids;
  bool chat = false;                                // made by a chat template
  ReasoningStart reasoning = ReasoningStart::kOff;  // where the answer starts
};

/// Reads the input and makes it ids. Refuses (exit code 2) an empty prompt, a missing tokenizer or
/// template, and messages or a template that can't be used.
Prompt make_prompt(const RunOptions& options, const ModelFiles& files, const Log& log);

}  // namespace llm
