#include "cli/command_line_errors.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/closest.h"
#include "base/error.h"

namespace llm {
namespace {

/// The parser of the chosen subcommand, or the program's.
const CLI::App& chosen(const CLI::App& app) {
  const std::vector<CLI::App*> subs = app.get_subcommands();
  return subs.empty() ? app : *subs.front();
}

const CLI::App* find_subcommand(const CLI::App& app, const std::string& name) {
  const auto subs = app.get_subcommands([&](const CLI::App* s) { return s->get_name() == name; });
  return subs.empty() ? nullptr : subs.front();
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names = {"help"};
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  const std::optional<std::string> meant = closest(word, candidates);
  return meant ? fmt::format(": did you mean {}?", *meant) : "";
}

bool looks_like_flag(const std::string& word) { return word.size() > 1 && word.starts_with('-'); }

/// An option that the command line has and the parser doesn't, or the first word too many.
std::string unexpected_argument(const CLI::App& command, const std::vector<std::string>& rest) {
  for (const std::string& word : rest) {
    if (!looks_like_flag(word)) continue;
    return fmt::format("unknown option {}{}", word,
                       suggestion(word.substr(0, word.find('=')), flags_of(command)));
  }
  return fmt::format("unexpected argument {}", rest.front());
}

std::string unknown_command(const CLI::App& app, const std::vector<std::string>& rest) {
  const std::string& word = rest.front();
  if (looks_like_flag(word)) return unexpected_argument(app, rest);
  return fmt::format("unknown command {}{}", word, suggestion(word, commands_of(app)));
}

/// The two halves of "A WORD B", as CLI11 says it of two options.
std::optional<std::pair<std::string, std::string>> halves(const std::string& text,
                                                          const std::string& word) {
  const size_t at = text.find(word);
  if (at == std::string::npos) return std::nullopt;
  return std::pair(text.substr(0, at), text.substr(at + word.size()));
}

/// A positional is shown by its type name ("MODEL"), which CLI11's messages don't use.
std::string shown_name(const CLI::App& command, const std::string& name) {
  const CLI::Option* option = command.get_option_no_throw(name);
  const bool renamed =
      option != nullptr && option->get_lnames().empty() && !option->get_type_name().empty();
  return renamed ? option->get_type_name() : name;
}

std::string problem_with(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = chosen(app);
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  const bool has_command = !app.get_subcommands().empty();
  if (!has_command && !rest.empty()) return unknown_command(app, rest);
  const std::string text = error.what();
  const std::string option = text.substr(0, text.find(':'));
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !rest.empty()) {
    return unexpected_argument(command, rest);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    if (text.ends_with(" missing")) return option + " needs a value";
    if (text.ends_with("received 2")) return option + " is given twice";
    if (text.find(" required but received ") != std::string::npos) {
      return option + " is given more than once";
    }
  }
  if (const auto pair = halves(text, " excludes ")) {
    return fmt::format("{} and {} can't be used together: leave one of them out",
                       shown_name(command, pair->first), shown_name(command, pair->second));
  }
  if (const auto pair = halves(text, " requires ")) {
    return fmt::format("{} needs {} beside it", pair->first, pair->second);
  }
  if (const auto pair = halves(text, " is required")) {
    return shown_name(command, pair->first) + " is missing";
  }
  return text;
}

}  // namespace

std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = chosen(app);
  const std::string name = &command == &app ? "llm" : "llm " + command.get_name();
  return fmt::format("{}\nSee `{} --help`.", problem_with(app, error), name);
}

void refuse_single_dashes(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* command = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") return;
    const CLI::App* sub = command == &app ? find_subcommand(app, word) : nullptr;
    if (sub != nullptr) command = sub;
    if (word.size() < 3 || word[0] != '-' || word[1] == '-') continue;
    const std::string flag = "-" + word.substr(0, word.find('='));
    if (command->get_option_no_throw(flag) != nullptr) {
      refuse("unknown option {}: did you mean {}?", word, flag);
    }
  }
}

void refuse_empty_flag_values(const CLI::App& app, int argc, const char* const* argv) {
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

}  // namespace llm
