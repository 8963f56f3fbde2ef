// The prompt of `llm run` as ids: raw text, ids as given, or a rendered chat.
#pragma once

#include "base/log.h"
#include "cli/chat_prompt.h"
#include "cli/run_options.h"
#include "engine/session.h"

namespace llm {

/// Reads the input and makes it ids. Refuses (exit code 2) an empty prompt, a missing tokenizer or
/// template, and messages or a template that can't be used.
Prompt make_prompt(const RunOptions& options, const ModelFiles& files, const Log& log);

}  // namespace llm
