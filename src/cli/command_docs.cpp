#include "cli/command_docs.h"

#include <fmt/format.h>

#include <sstream>
#include <string_view>

namespace llm {
namespace {

// ---- man(7) ----

/// Text that roff prints as it is.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '`') {
      out += "\\(ga";
    } else if (c == '^') {
      out += "\\(ha";
    } else if (c == '~') {
      out += "\\(ti";
    } else {
      out += c;
    }
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string roff_option(const OptionRow& option) {
  std::string label;
  for (const std::string& flag : option.flags) {
    label += fmt::format("{}\\fB{}\\fR", label.empty() ? "" : ", ", roff(flag));
  }
  if (!option.value.empty()) {
    label += fmt::format("{}\\fI{}\\fR", label.empty() ? "" : " ", roff(option.value));
  }
  return fmt::format(".TP\n{}\n{}\n", label, roff(option.help));
}

/// Lines that are kept as they are, such as commands to type.
std::string roff_lines(const std::string& text) {
  std::string out = ".nf\n";
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) out += roff(line) + '\n';
  return out + ".fi\n";
}

std::string roff_command(const CommandRow& command) {
  const std::string name = "llm " + command.name;
  std::string out = fmt::format(".SH {}\n{}.\n.PP\n{}\n", roff(name), roff(command.summary),
                                "\\fB" + roff(usage_of(command)) + "\\fR");
  for (const OptionRow& positional : command.positionals) out += roff_option(positional);
  for (const std::string& section : sections_of(command)) {
    out += fmt::format(".SS {}\n", roff(section));
    for (const OptionRow& option : command.options) {
      if (option.section == section) out += roff_option(option);
    }
  }
  if (!command.example.empty()) out += ".SS Example\n" + roff_lines(command.example);
  if (!command.notes.empty()) out += ".SS Notes\n" + roff_lines(command.notes);
  return out;
}

// ---- Markdown ----

/// Text that Markdown prints as it is; what stands between backquotes stays code.
std::string markdown(std::string_view text) {
  std::string out;
  bool code = false;
  for (const char c : text) {
    code ^= c == '`';
    if (!code && c == '<') {
      out += "&lt;";
      continue;
    }
    if (!code && (c == '*' || c == '_' || c == '\\' || c == '[' || c == ']')) out += '\\';
    out += c;
  }
  return out;
}

std::string markdown_option(const OptionRow& option) {
  return fmt::format("- `{}`: {}\n", label_of(option), markdown(option.help));
}

std::string markdown_command(const CommandRow& command) {
  std::string out = fmt::format("\n## llm {}\n\n{}.\n\n", command.name, markdown(command.summary));
  out += fmt::format("```\n{}\n```\n", usage_of(command));
  if (!command.positionals.empty()) out += '\n';
  for (const OptionRow& positional : command.positionals) out += markdown_option(positional);
  for (const std::string& section : sections_of(command)) {
    out += fmt::format("\n### {}\n\n", section);
    for (const OptionRow& option : command.options) {
      if (option.section == section) out += markdown_option(option);
    }
  }
  if (!command.example.empty()) {
    out += fmt::format("\n### Example\n\n```\n{}\n```\n", command.example);
  }
  if (!command.notes.empty()) out += fmt::format("\n```\n{}\n```\n", command.notes);
  return out;
}

}  // namespace

std::string man_page(const CommandTable& table, const std::string& version) {
  std::string out = fmt::format(".TH LLM 1 \"\" \"llm {}\" \"User Commands\"\n", roff(version));
  out += ".SH NAME\nllm \\- run language models from a terminal\n";
  out += ".SH SYNOPSIS\n";
  for (const CommandRow& command : table.commands) {
    out += fmt::format("\\fB{}\\fR\n.br\n", roff(usage_of(command)));
  }
  out +=
      "\\fBllm help\\fR [\\fICOMMAND\\fR]\n.SH DESCRIPTION\n" + roff(table.program.summary) + '\n';
  for (const CommandRow& command : table.commands) {
    out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(command.name), roff(command.summary));
  }
  out += ".SH OPTIONS\n";
  for (const OptionRow& option : table.program.options) out += roff_option(option);
  for (const CommandRow& command : table.commands) out += roff_command(command);
  return out + ".SH NOTES\n" + roff_lines(table.program.notes);
}

std::string markdown_reference(const CommandTable& table) {
  std::string out = "# Commands of llm\n\n" + markdown(table.program.summary) + "\n\n";
  for (const CommandRow& command : table.commands) {
    out += fmt::format("- [`llm {0}`](#llm-{0}): {1}\n", command.name, markdown(command.summary));
  }
  out += fmt::format("\n## llm\n\n```\n{}\n```\n\n", usage_of(table.program));
  for (const OptionRow& option : table.program.options) out += markdown_option(option);
  out += fmt::format("\n```\n{}\n```\n", table.program.notes);
  for (const CommandRow& command : table.commands) out += markdown_command(command);
  return out;
}

}  // namespace llm
