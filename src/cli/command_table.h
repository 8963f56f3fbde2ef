// The commands and options as plain tables, read from the parser: what help, man page, reference
// and shell completion are printed from, so that none of them can disagree with what is parsed.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace llm {

/// What a shell can offer for a value.
enum class Completes { kNothing, kWords, kFile, kFolder, kModel };

struct OptionRow {
  std::vector<std::string> flags;  // "-m", "--model"; empty for a positional
  std::string value;               // "DIR|NAME"; a positional's name; empty for a switch
  std::string help;
  std::string section;
  Completes completes = Completes::kNothing;
  std::vector<std::string> words;  // kWords: what the value can be
  bool required = false;           // positionals

  bool is_positional() const { return flags.empty(); }
};

struct CommandRow {
  std::string name;  // empty: the program itself
  std::string summary;
  std::vector<OptionRow> options;  // without positionals
  std::vector<OptionRow> positionals;
  std::string example;  // command lines
  std::string notes;    // what the help ends with
};

struct CommandTable {
  CommandRow program;
  std::vector<CommandRow> commands;
};

/// Of the program's parser, with all its subcommands added.
CommandTable read_command_table(const CLI::App& app);

/// The command of this name, or null.
const CommandRow* find_command(const CommandTable& table, const std::string& name);

/// Section titles in the order in which they are printed: that of the options, and those without a
/// section of their own last.
std::vector<std::string> sections_of(const CommandRow& command);

/// "llm run [OPTIONS] [PROMPT]".
std::string usage_of(const CommandRow& command);

/// "-m, --model DIR|NAME", or a positional's name.
std::string label_of(const OptionRow& option);

}  // namespace llm
