// What --help prints.
#pragma once

#include <string>

#include "cli/command_table.h"

namespace llm {

/// Of `llm --help`: the commands, the program's own options, exit codes.
std::string program_help(const CommandTable& table);

/// Of `llm COMMAND --help`: usage, options by section, an example.
std::string command_help(const CommandRow& command);

}  // namespace llm
