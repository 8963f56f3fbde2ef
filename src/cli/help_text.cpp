#include "cli/help_text.h"

#include <fmt/format.h>

#include <sstream>

namespace llm {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kColumn = 28;  // where the explanations begin

/// "  LABEL      words of the explanation", folded at kWidth.
std::string entry(const std::string& label, const std::string& text) {
  std::string out = "  " + label;
  size_t used = out.size();
  if (used + 2 > kColumn) {
    out += '\n';
    used = 0;
  }
  out.append(kColumn - used, ' ');
  used = kColumn;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (used > kColumn && used + 1 + word.size() > kWidth) {
      out += '\n' + std::string(kColumn, ' ');
      used = kColumn;
    }
    if (used > kColumn) {
      out += ' ';
      ++used;
    }
    out += word;
    used += word.size();
  }
  return out + '\n';
}

std::string section_text(const CommandRow& command, const std::string& section) {
  std::string out = section + ":\n";
  for (const OptionRow& option : command.options) {
    if (option.section == section) out += entry(label_of(option), option.help);
  }
  return out + '\n';
}

std::string indented(const std::string& lines) {
  std::string out;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) out += "  " + line + '\n';
  return out;
}

}  // namespace

std::string program_help(const CommandTable& table) {
  std::string out = table.program.summary + "\n\nUsage: " + usage_of(table.program) + "\n\n";
  out += "Commands:\n";
  for (const CommandRow& command : table.commands) out += entry(command.name, command.summary);
  out += entry("help [COMMAND]", "This text, or that of one command");
  out += '\n';
  for (const std::string& section : sections_of(table.program)) {
    out += section_text(table.program, section);
  }
  return out + table.program.notes + '\n';
}

std::string command_help(const CommandRow& command) {
  std::string out = command.summary + ".\n\nUsage: " + usage_of(command) + "\n\n";
  for (const OptionRow& positional : command.positionals) {
    out += entry(positional.value, positional.help);
  }
  if (!command.positionals.empty()) out += '\n';
  for (const std::string& section : sections_of(command)) out += section_text(command, section);
  if (!command.example.empty()) out += "Example:\n" + indented(command.example);
  if (!command.notes.empty()) out += '\n' + command.notes + '\n';
  return out;
}

}  // namespace llm
