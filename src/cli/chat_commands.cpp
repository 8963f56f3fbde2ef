#include "cli/chat_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "base/closest.h"

namespace llm {
namespace {

enum class Argument { kNone, kOptional, kNeeded };

struct CommandRow {
  std::string_view name;
  ChatCommand command;
  Argument argument;
  std::string_view usage;
  std::string_view help;
};

constexpr CommandRow kCommands[] = {
    {"/help", ChatCommand::kHelp, Argument::kNone, "", "this list"},
    {"/clear", ChatCommand::kClear, Argument::kNone, "",
     "begin a new conversation; the system message stays"},
    {"/system", ChatCommand::kSystem, Argument::kOptional, "TEXT",
     "set the system message (alone: show it; - takes it away)"},
    {"/think", ChatCommand::kThink, Argument::kNeeded, "on|off|auto",
     "whether the model thinks first (auto: the template's default)"},
    {"/save", ChatCommand::kSave, Argument::kNeeded, "FILE",
     "write the conversation to a new file, as JSON"},
    {"/save!", ChatCommand::kSaveOver, Argument::kNeeded, "FILE",
     "the same, replacing a file that is there"},
    {"/load", ChatCommand::kLoad, Argument::kNeeded, "FILE",
     "go on with the conversation of a file (of /save, or for run --messages)"},
    {"/regen", ChatCommand::kRegen, Argument::kNone, "", "answer the last message again"},
    {"/stats", ChatCommand::kStats, Argument::kNone, "",
     "times and speeds of the last answer, and how full the context is"},
    {"/set", ChatCommand::kSet, Argument::kOptional, "NAME VALUE",
     "change a sampling value, seed, max-tokens, think-budget (alone: show them)"},
    {"/file", ChatCommand::kFile, Argument::kNeeded, "PATH",
     "send a text file along with the next message, after a blank line"},
    {"/exit", ChatCommand::kExit, Argument::kNone, "", "end the chat, as Ctrl-D does"},
    {"/quit", ChatCommand::kExit, Argument::kNone, "", "the same"},
};

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string unknown_command(std::string_view name) {
  std::vector<std::string> names;
  for (const CommandRow& row : kCommands) names.emplace_back(row.name);
  const std::optional<std::string> meant = closest(name, names);
  return fmt::format(
      "unknown command {}{} There are: {}. A message that begins with a slash is written with two.",
      name, meant ? fmt::format(": did you mean {}?", *meant) : ".", fmt::join(names, " "));
}

std::string usage(const CommandRow& row) {
  return row.usage.empty() ? std::string(row.name) : fmt::format("{} {}", row.name, row.usage);
}

}  // namespace

ChatEntry parse_entry(std::string_view text) {
  ChatEntry entry;
  if (!text.starts_with('/') || text.find('\n') != std::string_view::npos) {
    entry.text = text;
    return entry;
  }
  if (text.starts_with("//")) {
    entry.text = text.substr(1);
    return entry;
  }
  const size_t name_end = std::min(text.find_first_of(" \t\r"), text.size());
  const std::string_view name = text.substr(0, name_end);
  const std::string_view argument = trimmed(text.substr(name_end));
  const auto row = std::find_if(std::begin(kCommands), std::end(kCommands),
                                [&](const CommandRow& r) { return r.name == name; });
  if (row == std::end(kCommands)) {
    entry.kind = ChatEntry::Kind::kMistake;
    entry.text = unknown_command(name);
  } else if ((row->argument == Argument::kNone && !argument.empty()) ||
             (row->argument == Argument::kNeeded && argument.empty())) {
    entry.kind = ChatEntry::Kind::kMistake;
    entry.text = fmt::format("expected {}: {}", usage(*row), row->help);
  } else {
    entry.kind = ChatEntry::Kind::kCommand;
    entry.command = row->command;
    entry.text = argument;
  }
  return entry;
}

std::string chat_help() {
  std::string text;
  for (const CommandRow& row : kCommands) {
    text += fmt::format("{:<20} {}\n", usage(row), row.help);
  }
  text +=
      "A line that ends in \\ goes on in the next one, and so does everything between \"\"\" and "
      "\"\"\".\n"
      "A pasted text is one message. Alt-Enter begins a new line. Up and down: earlier messages.\n"
      "Ctrl-C stops an answer; what is there of it stays in the conversation. Ctrl-D ends.\n";
  return text;
}

}  // namespace llm
