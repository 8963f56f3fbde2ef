// What is wrong with a command line, in our words.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace llm {

/// The message for what the parser found: the option or word, what was expected, what was perhaps
/// meant, and where all options are listed.
std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error);

/// Refuses (exit code 2) "-temp", which the parser would take for "-t emp". Call before parsing.
void refuse_single_dashes(const CLI::App& app, int argc, const char* const* argv);

/// Refuses "--flag=" of a flag without a value, which the parser takes for "--flag". Call after
/// parsing.
void refuse_empty_flag_values(const CLI::App& app, int argc, const char* const* argv);

}  // namespace llm
