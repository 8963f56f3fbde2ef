// The text of a prompt: from the command line, a file and stdin.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/log.h"

namespace llm {

/// Where the text comes from and what becomes of its ends.
struct PromptInput {
  std::optional<std::string> prompt = {};  // PROMPT; "-" = only stdin
  std::optional<std::string> file = {};    // -f
  bool escape = false;                     // PROMPT has \n and the like
  bool read_stdin = true;                  // if it isn't a terminal
  bool read_terminal = false;              // stdin even so
  bool raw = false;                        // parts are joined plainly, else by a blank line
  bool drop_newline = true;                // one trailing newline of file and of stdin
  const char* file_flag = "-f";            // which gave the file
  const char* noun = "prompt";             // what messages call the text
};

/// PROMPT, file and stdin in that order; parts that are empty are left out. Ill-formed UTF-8
/// becomes U+FFFD with one warning. Says on stderr that it reads a terminal, or that stdin gives
/// nothing for a second. Refuses (exit code 2) a file that can't be read, and `-` together with a
/// file.
std::string read_prompt(const PromptInput& input, const Log& log);

/// \n \t \r \\ \" \' \xHH (a byte) \uHHHH (a code point); anything else stays as it is.
std::string unescape(std::string_view text);

}  // namespace llm
