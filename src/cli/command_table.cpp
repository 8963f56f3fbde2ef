#include "cli/command_table.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

namespace llm {
namespace {

constexpr const char* kLastSection = "Options";  // CLI11's name for those without a section

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

/// Placeholders are in capitals (DIR, F.npy), words to choose from aren't (on|off|auto).
bool is_placeholder(const std::string& word) { return word[0] >= 'A' && word[0] <= 'Z'; }

void set_completion(OptionRow& row) {
  const std::vector<std::string> parts = split(row.value, '|');
  const auto takes = [&](const char* word) {
    return std::find(parts.begin(), parts.end(), word) != parts.end();
  };
  if (parts.size() > 1 && std::none_of(parts.begin(), parts.end(), is_placeholder)) {
    row.completes = Completes::kWords;
    row.words = parts;
  } else if (takes("MODEL") || (takes("DIR") && takes("NAME"))) {
    row.completes = Completes::kModel;
  } else if (takes("DIR")) {
    row.completes = Completes::kFolder;
  } else if (takes("FILE") || row.value.starts_with("F.")) {
    row.completes = Completes::kFile;
  }
}

OptionRow read_option(const CLI::Option& option) {
  OptionRow row;
  for (const std::string& name : option.get_snames()) row.flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) row.flags.push_back("--" + name);
  row.help = option.get_description();
  row.section = option.get_group();
  row.required = option.get_required();
  if (option.get_items_expected_max() > 0) row.value = option.get_type_name();
  if (row.is_positional() && row.value.empty()) row.value = option.get_name(/*positional=*/true);
  set_completion(row);
  return row;
}

CommandRow read_command(const CLI::App& app) {
  CommandRow command;
  command.name = app.get_name();
  command.summary = app.get_description();
  // A subcommand's footer is its example, then, after an empty line, notes.
  // CLI11 gives the program's own footer to those that have none.
  const CLI::App* program = app.get_parent();
  const bool inherited = program != nullptr && app.get_footer() == program->get_footer();
  const std::string footer = inherited ? "" : app.get_footer();
  const size_t end = program == nullptr ? 0 : std::min(footer.find("\n\n"), footer.size());
  command.example = footer.substr(0, end);
  command.notes = footer.substr(std::min(footer.find_first_not_of('\n', end), footer.size()));
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // CLI11's way to hide one
    OptionRow row = read_option(*option);
    (row.is_positional() ? command.positionals : command.options).push_back(std::move(row));
  }
  return command;
}

}  // namespace

CommandTable read_command_table(const CLI::App& app) {
  CommandTable table;
  table.program = read_command(app);
  table.program.name.clear();
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    table.commands.push_back(read_command(*sub));
  }
  return table;
}

const CommandRow* find_command(const CommandTable& table, const std::string& name) {
  for (const CommandRow& command : table.commands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

std::vector<std::string> sections_of(const CommandRow& command) {
  std::vector<std::string> sections;
  for (const OptionRow& option : command.options) {
    const bool listed =
        std::find(sections.begin(), sections.end(), option.section) != sections.end();
    if (!listed && option.section != kLastSection) sections.push_back(option.section);
  }
  sections.push_back(kLastSection);  // --help at least
  return sections;
}

std::string usage_of(const CommandRow& command) {
  if (command.name.empty()) return "llm [OPTIONS] COMMAND ...";
  std::string usage = fmt::format("llm {} [OPTIONS]", command.name);
  for (const OptionRow& positional : command.positionals) {
    usage += positional.required ? " " + positional.value : " [" + positional.value + "]";
  }
  return usage;
}

std::string label_of(const OptionRow& option) {
  const std::string flags = fmt::format("{}", fmt::join(option.flags, ", "));
  if (flags.empty() || option.value.empty()) return flags + option.value;
  return flags + " " + option.value;
}

}  // namespace llm
