// llm: the subcommand table, the one place that catches errors, and the exit codes.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/descriptor_io.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/command_docs.h"
#include "cli/command_line_errors.h"
#include "cli/command_table.h"
#include "cli/commands.h"
#include "cli/help_text.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/shell_completion.h"
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
    {"chat", "Hold a conversation, in a terminal or line by line", add_chat},
    {"tokenize", "Turn text into token ids and back", add_tokenize},
    {"inspect", "Show what a model folder holds", add_inspect},
    {"bench", "Measure prefill and decode speed", add_bench},
    {"eval", "Measure perplexity on a text, and the distance from a baseline", add_eval},
    {"models", "List models: known, installed, fitting this machine", add_models},
    {"get", "Download a model into the Hugging Face cache", add_get},
    {"doctor", "Check this machine and this build; the text for a bug report", add_doctor},
};

/// What `llm --help` ends with.
constexpr const char* kProgramNotes =
    "Examples:\n"
    "  llm chat\n"
    "  llm get qwen3-0.6b\n"
    "  cat notes.txt | llm run -m qwen3-0.6b \"Summarize this:\"\n"
    "\n"
    "Results go to stdout, everything else to stderr.\n"
    "\n"
    "Environment:\n"
    "  LLM_MODEL     the model where no -m is given (default: the built-in tiny)\n"
    "  LLM_CPU_ISA   instruction set to compute with, of those that `llm --version` lists\n"
    "  HF_HOME       the Hugging Face cache is the folder hub in it (or HF_HUB_CACHE)\n"
    "\n"
    "Exit codes:\n"
    "  0    done\n"
    "  1    failed while working\n"
    "  2    refused before any work: the command line, a file or a model can't be used\n"
    "  130  interrupted\n"
    "  141  the reader of the output went away";

/// Everything printed so far has left the process, so it can end at once, whatever it was doing.
void exit_interrupted(int) { ::_exit(static_cast<int>(ExitCode::kInterrupted)); }

/// Weights are read from mapped files, so a file that shrinks under us ends in SIGBUS.
void exit_bus_error(int) {
  constexpr std::string_view kMessage =
      "llm: a model file can't be read any more: it was cut short or replaced while in use, or its "
      "disk failed\n";
  write_all(STDERR_FILENO, kMessage);  // only calls that a signal handler may make
  ::_exit(static_cast<int>(ExitCode::kFailed));
}

void set_signals() {
  std::signal(SIGPIPE, SIG_IGN);  // writers see EPIPE and exit with kClosedPipe
  std::signal(SIGBUS, exit_bus_error);
  struct sigaction inherited {};
  ::sigaction(SIGINT, nullptr, &inherited);
  // A parent that ignores interrupts (nohup-like scripts) wants them ignored here too.
  if (inherited.sa_handler != SIG_IGN) std::signal(SIGINT, exit_interrupted);
}

/// Gives closed standard streams a place, so that no file that is opened later takes it and gets
/// what was meant for the stream. Reading finds the end; writing to stdout still fails.
void occupy_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // Takes the lowest free number, which is fd.
    ::open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void print_error(const std::string& message) {
  const std::string_view end = message.ends_with('\n') ? "" : "\n";
  write_stderr(fmt::format("llm: {}{}", escape_controls(message), end));
}

/// What the program prints instead of running a command.
struct SelfDescription {
  std::string shell;  // --completion
  bool man = false;
  bool reference = false;
};

void add_program_options(CLI::App& app, SelfDescription& wanted) {
  app.set_version_flag("--version", version_text, "Print the version and what is in this build");
  app.set_help_flag("-h,--help", "Print this help");
  // Subcommands have -m themselves; before the subcommand it is another way to give $LLM_MODEL.
  refuse_empty(app.add_option_function<std::string>(
                   "-m,--model",
                   [](const std::string& name) { ::setenv("LLM_MODEL", name.c_str(), 1); },
                   "Model for the command, whose own -m comes first"))
      ->type_name("DIR|NAME");
  add_choice(
      app, "--completion", {"bash", "zsh", "fish"},
      [&wanted](const std::string& shell) { wanted.shell = shell; },
      "Print the script that completes commands and options in this shell");
  app.add_flag("--man", wanted.man, "Print the manual page");
  app.add_flag("--reference", wanted.reference, "Print all commands and options as Markdown");
  app.footer(kProgramNotes);
}

/// The text that was asked for, or nothing.
std::optional<std::string> describe_self(const SelfDescription& wanted, const CommandTable& table) {
  if (wanted.man) return man_page(table, version_number());
  if (wanted.reference) return markdown_reference(table);
  if (wanted.shell == "bash") return bash_completion(table);
  if (wanted.shell == "zsh") return zsh_completion(table);
  if (wanted.shell == "fish") return fish_completion(table);
  return std::nullopt;
}

/// The words with `help [COMMAND]` turned into `[COMMAND] --help`.
std::vector<const char*> without_help_command(int argc, char** argv) {
  std::vector<const char*> words(argv, argv + argc);
  if (argc >= 2 && argc <= 3 && std::string_view(argv[1]) == "help") {
    words.erase(words.begin() + 1);
    words.push_back("--help");
  }
  return words;
}

std::string help_for(const CLI::App& app) {
  const CommandTable table = read_command_table(app);
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CommandRow* command =
      chosen.empty() ? nullptr : find_command(table, chosen.front()->get_name());
  return command != nullptr ? command_help(*command) : program_help(table);
}

ExitCode parse_and_run(int argc, char** argv) {
  CLI::App app("Runs Qwen3, Qwen2 and Llama models from a terminal.", "llm");
  SelfDescription wanted;
  add_program_options(app, wanted);
  app.require_subcommand(0, 1);

  Action action;
  for (const Subcommand& command : kSubcommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    const Action run = command.add(*sub);
    sub->final_callback([&action, run] { action = run; });
  }
  const std::vector<const char*> words = without_help_command(argc, argv);
  const int count = static_cast<int>(words.size());
  refuse_single_dashes(app, count, words.data());
  try {
    app.parse(count, words.data());
  } catch (const CLI::CallForHelp& help) {
    const bool unknown = app.get_subcommands().empty() && !app.remaining().empty();
    if (unknown) refuse("{}", describe_parse_error(app, help));
    write_stdout(help_for(app));
    return ExitCode::kOk;
  } catch (const CLI::Success& version) {
    write_stdout(version.what() + std::string("\n"));
    return ExitCode::kOk;
  } catch (const CLI::ParseError& error) {
    refuse("{}", describe_parse_error(app, error));
  }
  refuse_empty_flag_values(app, count, words.data());
  if (const auto text = describe_self(wanted, read_command_table(app))) {
    write_stdout(*text);
    return ExitCode::kOk;
  }
  if (!action) refuse("no command given\nSee `llm --help`.");
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
  } catch (const std::filesystem::filesystem_error& error) {
    print_error(error.path1().empty()
                    ? std::string(error.what())
                    : fmt::format("{}: {}", error.path1().string(), error.code().message()));
    return ExitCode::kRefused;
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
  llm::occupy_standard_streams();
  llm::set_signals();
  return static_cast<int>(llm::guarded_main(argc, argv));
}
