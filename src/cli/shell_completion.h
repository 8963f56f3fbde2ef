// Scripts that complete llm's commands, options and values in a shell.
#pragma once

#include <string>

#include "cli/command_table.h"

namespace llm {

std::string bash_completion(const CommandTable& table);
std::string zsh_completion(const CommandTable& table);
std::string fish_completion(const CommandTable& table);

}  // namespace llm
