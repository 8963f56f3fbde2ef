// Runs the built program as a user does, and looks at what comes out.
#pragma once

#include <string>
#include <vector>

namespace llm {

struct LlmCall {
  std::vector<std::string> args;  // after "llm"
  std::string input;              // stdin; empty input is an empty stdin
  enum class Stdout { kPipe, kClosedPipe, kFull } out = Stdout::kPipe;  // kFull: /dev/full
  bool interrupt_after_output = false;                                  // SIGINT
  std::vector<std::string> environment;  // "NAME=value" beside the test's own
};

struct LlmResult {
  int exit_code = -1;  // 128 + signal where one ended it
  std::string out;
  std::string err;
};

/// In a child process: becomes the program, with these variables set.
[[noreturn]] void exec_llm(const std::vector<std::string>& args,
                           const std::vector<std::string>& environment);

/// $LLM_BINARY, or build/llm. Throws std::runtime_error if it can't be started, or runs for more
/// than two minutes.
LlmResult run_llm(const LlmCall& call);

inline LlmResult run_llm(std::vector<std::string> args, std::string input = "") {
  LlmCall call;
  call.args = std::move(args);
  call.input = std::move(input);
  return run_llm(call);
}

}  // namespace llm
