// llm run --jsonl: many requests, answered together by continuous batching.
#pragma once

#include "base/error.h"
#include "base/log.h"
#include "cli/run_options.h"

namespace llm {

/// Answers every line of the input with a line, in the input's order: the JSON object of `run
/// --json` with the line's id, or {"id", "error": {"line", "message"}}. Blank lines are skipped. Of
/// the lines that are done only their ids stay in memory. Returns kFailed if there was an error
/// line.
ExitCode run_jsonl(RunOptions& options, const Log& log);

}  // namespace llm
