// The man page and the command reference.
#pragma once

#include <string>

#include "cli/command_table.h"

namespace llm {

/// llm(1), in the macros of man(7).
std::string man_page(const CommandTable& table, const std::string& version);

/// Every command and option, in Markdown.
std::string markdown_reference(const CommandTable& table);

}  // namespace llm
