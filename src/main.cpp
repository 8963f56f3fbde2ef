// llm: the subcommand table, the one place that catches errors, and the exit codes.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/version.h"

namespace llm {
namespace {

struct Subcommand {
  const char* name;
  const char* summary;
  Action (*add)(CLI::App& app);
};

constexpr Subcommand kSubcommands[] = {
    {"run", "Answer one prompt, streamed to stdout", add_run},
    {"tokenize", "Turn text into token ids and back", add_tokenize},
    {"inspect", "Show what a model folder holds", add_inspect},
    {"bench", "Measure prefill and decode speed", add_bench},
};

/// Everything printed so far has left the process, so it can end at once, whatever it was doing.
void exit_interrupted(int) { ::_exit(static_cast<int>(ExitCode::kInterrupted)); }

void set_signals() {
  std::signal(SIGPIPE, SIG_IGN);  // writers see EPIPE and exit with kClosedPipe
  std::signal(SIGINT, exit_interrupted);
}

void print_error(const std::string& message) {
  fmt::print(stderr, "llm: {}{}", message, message.ends_with('\n') ? "" : "\n");
}

/// What CLI11 found wrong with the command line, and where the options are listed.
ExitCode report_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> rest = app.remaining();
  if (app.get_subcommands().empty() && !rest.empty()) {
    print_error(fmt::format("unknown command or option {}\nSee `llm --help`.", rest.front()));
    return ExitCode::kRefused;
  }
  std::string command = "llm";
  for (const CLI::App* sub : app.get_subcommands()) command += " " + sub->get_name();
  print_error(fmt::format("{}\nSee `{} --help`.", error.what(), command));
  return ExitCode::kRefused;
}

ExitCode parse_and_run(int argc, char** argv) {
  CLI::App app("Runs Qwen3, Qwen2 and Llama models from a terminal.", "llm");
  app.set_version_flag("--version", version_text, "Print the version and what is in this build");
  app.set_help_flag("-h,--help", "Print this help");
  app.require_subcommand(1);
  // Subcommands have -m themselves; before the subcommand it is another way to give $LLM_MODEL.
  app.add_option_function<std::string>(
         "-m,--model", [](const std::string& name) { ::setenv("LLM_MODEL", name.c_str(), 1); },
         "Model for the subcommand, whose own -m comes first")
      ->type_name("DIR|NAME");
  app.get_formatter()->column_width(34);

  Action action;
  for (const Subcommand& command : kSubcommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    const Action run = command.add(*sub);
    sub->final_callback([&action, run] { action = run; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    std::ostringstream text;
    app.exit(wanted, text, text);
    write_stdout(text.str());
    return ExitCode::kOk;
  } catch (const CLI::ParseError& error) {
    return report_parse_error(app, error);
  }
  const ExitCode code = action();
  flush_stdout();
  return code;
}

/// parse_and_run with every exception turned into a message and an exit code.
ExitCode guarded_main(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kClosedPipe) print_error(error.what());
    return error.code();
  } catch (const std::bad_alloc&) {
    print_error("out of memory. A smaller --ctx or a smaller model needs less.");
  } catch (const std::system_error& error) {
    if (error.code().value() == EPIPE) return ExitCode::kClosedPipe;
    print_error(error.what());
  } catch (const std::logic_error& error) {
    print_error(fmt::format("internal error, please report it: {}", error.what()));
  } catch (const std::exception& error) {
    print_error(error.what());
  }
  return ExitCode::kFailed;
}

}  // namespace
}  // namespace llm

int main(int argc, char** argv) {
  llm::set_signals();
  return static_cast<int>(llm::guarded_main(argc, argv));
}
