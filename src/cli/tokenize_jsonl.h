// llm tokenize --jsonl: many texts and id lists, one JSON object a line.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "text/tokenizer.h"

namespace llm {

/// Answers lines of further kinds, nothing where a line is of none of them; may throw Error.
using OtherLines = std::function<std::optional<std::string>(std::string_view line)>;

/// Answers each line of the file ("-": stdin) with a line on stdout: {"text", "special"?, "plain"?}
/// with {"ids"}, {"ids", "skip_special"?} with {"text"}, a line that can't be used with {"error",
/// "line"}, a blank line with nothing; `others`, which any thread may call, is asked first. The
/// answers are in the lines' order; lines that are there together are answered by all threads.
/// Returns kFailed if there was an error line. Refuses (exit code 2) a file that can't be read.
ExitCode tokenize_jsonl(const std::string& file, const Tokenizer& tokenizer,
                        const OtherLines& others, const Log& log);

/// The answer to one line, without a line end; throws Error for one that can't be used.
std::string tokenize_jsonl_line(std::string_view line, const Tokenizer& tokenizer);

}  // namespace llm
