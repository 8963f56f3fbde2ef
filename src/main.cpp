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
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/descriptor_io.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/options.h"
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
    {"chat", "Hold a conversation, in a terminal or line by line", add_chat},
    {"tokenize", "Turn text into token ids and back", add_tokenize},
    {"inspect", "Show what a model folder holds", add_inspect},
    {"bench", "Measure prefill and decode speed", add_bench},
    {"models", "List models: known, installed, fitting this machine", add_models},
    {"get", "Download a model into the Hugging Face cache", add_get},
    {"doctor", "Check this machine and this build; the text for a bug report", add_doctor},
};

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

/// An option that the command line has and the parser doesn't, or the first word too many.
std::string unexpected_argument(const std::vector<std::string>& rest) {
  for (const std::string& word : rest) {
    if (word.size() > 1 && word.starts_with('-')) return fmt::format("unknown option {}", word);
  }
  return fmt::format("unexpected argument {}", rest.front());
}

/// CLI11's message in our words, where its own says little.
std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::string option = text.substr(0, text.find(':'));
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !rest.empty()) {
    return unexpected_argument(rest);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    if (text.ends_with(" missing")) return option + " needs a value";
    if (text.ends_with("received 2")) return option + " is given twice";
    if (text.find(" required but received ") != std::string::npos) {
      return option + " is given more than once";
    }
  }
  return text;
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
  print_error(fmt::format("{}\nSee `{} --help`.", describe_parse_error(app, error), command));
  return ExitCode::kRefused;
}

/// CLI11 takes "--flag=" for "--flag".
void refuse_empty_flag_values(const CLI::App& app, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") return;
    if (!word.starts_with("--") || !word.ends_with('=')) continue;
    const std::string name = word.substr(0, word.size() - 1);
    for (const CLI::App* sub : app.get_subcommands()) {
      const CLI::Option* option = sub->get_option_no_throw(name);
      if (option != nullptr && option->get_items_expected_max() == 0) {
        refuse("{} has nothing after the =: leave out the =", word);
      }
    }
  }
}

ExitCode parse_and_run(int argc, char** argv) {
  CLI::App app("Runs Qwen3, Qwen2 and Llama models from a terminal.", "llm");
  app.set_version_flag("--version", version_text, "Print the version and what is in this build");
  app.set_help_flag("-h,--help", "Print this help");
  app.require_subcommand(1);
  // Subcommands have -m themselves; before the subcommand it is another way to give $LLM_MODEL.
  refuse_empty(app.add_option_function<std::string>(
                   "-m,--model",
                   [](const std::string& name) { ::setenv("LLM_MODEL", name.c_str(), 1); },
                   "Model for the subcommand, whose own -m comes first"))
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
  refuse_empty_flag_values(app, argc, argv);
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
