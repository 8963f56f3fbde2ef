// The subcommands. Each lives in its own cmd_*.cpp: it declares its options, and returns what runs
// once they are parsed.
#pragma once

#include <functional>

#include "base/error.h"

namespace CLI {
class App;
}

namespace llm {

/// Runs a parsed subcommand. Errors that end it are thrown (refuse(), fail()); a code is returned
/// where a command ends with one that is no error, such as findings of `inspect --check`.
/// Results are written with write_stdout() (cli/output.h).
using Action = std::function<ExitCode()>;

/// Each adds its options and positionals to `app`, the subcommand's own parser, which outlives the
/// Action. Values live in an object that the Action shares (std::shared_ptr).
Action add_run(CLI::App& app);
Action add_chat(CLI::App& app);
Action add_bench(CLI::App& app);
Action add_eval(CLI::App& app);
Action add_tokenize(CLI::App& app);
Action add_inspect(CLI::App& app);
Action add_models(CLI::App& app);
Action add_get(CLI::App& app);
Action add_doctor(CLI::App& app);

}  // namespace llm
