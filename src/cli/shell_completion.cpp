#include "cli/shell_completion.h"

#include <fmt/format.h>

#include <string_view>

namespace llm {
namespace {

/// Shell code that lists the names of `llm models`; `program` is the shell's word for the program
/// that is being completed, which needn't be in the PATH.
std::string model_names(const char* program) {
  return program +
         std::string(R"( models --json 2>/dev/null | grep -o '"alias":"[^"]*"' | cut -d'"' -f4)");
}

constexpr const char* kHowToLoadBash =
    "# Completion of llm for bash: source this file, or put it as \"llm\" into\n"
    "# ~/.local/share/bash-completion/completions/.\n";
constexpr const char* kHowToLoadFish =
    "# Completion of llm for fish: put this file as llm.fish into ~/.config/fish/completions/.\n";

std::string replace_all(std::string_view text, char what, std::string_view with) {
  std::string out;
  for (const char c : text) {
    if (c == what) {
      out += with;
    } else {
      out += c;
    }
  }
  return out;
}

/// Within single quotes of a POSIX shell or of zsh.
std::string in_quotes(std::string_view text) { return replace_all(text, '\'', "'\\''"); }

std::string joined_flags(const CommandRow& command, std::string_view separator) {
  std::string out;
  for (const OptionRow& option : command.options) {
    for (const std::string& flag : option.flags) {
      out += fmt::format("{}{}", out.empty() ? std::string_view() : separator, flag);
    }
  }
  return out;
}

std::string command_names(const CommandTable& table) {
  std::string out = "help";
  for (const CommandRow& command : table.commands) out += " " + command.name;
  return out;
}

// ---- bash ----

std::string bash_values(const OptionRow& row) {
  switch (row.completes) {
    case Completes::kWords:
      return fmt::format("_llm_words '{}'", fmt::join(row.words, " "));
    case Completes::kFile:
      return "_llm_paths -f";
    case Completes::kFolder:
      return "_llm_paths -d";
    case Completes::kModel:
      return "_llm_models";
    case Completes::kNothing:
      break;
  }
  return ":";
}

/// Cases "COMMAND FLAG" for options that take a value.
std::string bash_value_cases(const CommandRow& command) {
  std::string out;
  for (const OptionRow& option : command.options) {
    if (option.value.empty()) continue;
    std::string patterns;
    for (const std::string& flag : option.flags) {
      patterns += fmt::format("{}'{} {}'", patterns.empty() ? "" : " | ", command.name, flag);
    }
    out += fmt::format("    {}) {}; return ;;\n", patterns, bash_values(option));
  }
  return out;
}

std::string bash_command_case(const CommandRow& command) {
  const std::string rest =
      command.positionals.empty() ? ":" : bash_values(command.positionals.front());
  return fmt::format("    {}) flags='{}'; [[ $current = -* ]] || {{ {}; return; }} ;;\n",
                     command.name, joined_flags(command, " "), rest);
}

constexpr const char* kBashHelpers = R"(
_llm_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current"); }
_llm_paths() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$current")
}
_llm_models() {
  local names
  names=$(_llm_model_names)
  _llm_paths -d
  mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W "$names" -- "$current")
}
)";

/// `--flag=value` reaches a completion as three words.
constexpr const char* kBashBegin = R"(
_llm() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local command='' flags='' i
  if [[ $current = '=' ]]; then
    current=''
  elif [[ $before = '=' ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${COMP_WORDS[i]} in
      -m | --model | --completion) ((++i)) ;;
      -* | =) ;;
      *) command=${COMP_WORDS[i]}; break ;;
    esac
  done
)";

// ---- zsh ----

std::string zsh_values(const OptionRow& row) {
  switch (row.completes) {
    case Completes::kWords:
      return fmt::format("({})", fmt::join(row.words, " "));
    case Completes::kFile:
      return "_files";
    case Completes::kFolder:
      return "_files -/";
    case Completes::kModel:
      return "_llm_models";
    case Completes::kNothing:
      break;
  }
  return " ";
}

/// Text within an _arguments specification: brackets and colons end its parts.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return in_quotes(out);
}

std::string zsh_option(const OptionRow& option) {
  std::string out;
  for (const std::string& flag : option.flags) {
    const bool is_long = flag.starts_with("--");
    const std::string value =
        option.value.empty() ? ""
                             : fmt::format(":{}:{}", zsh_text(option.value), zsh_values(option));
    out += fmt::format(" \\\n        '*{}{}[{}]{}'", flag,
                       option.value.empty() ? "" : (is_long ? "=" : "+"), zsh_text(option.help),
                       value);
  }
  return out;
}

std::string zsh_arguments(const CommandRow& command) {
  std::string out = "_arguments -s";
  for (const OptionRow& option : command.options) out += zsh_option(option);
  for (const OptionRow& row : command.positionals) {
    out += fmt::format(" \\\n        ':{}:{}'", zsh_text(row.value), zsh_values(row));
  }
  return out;
}

// ---- fish ----

std::string fish_text(std::string_view text) {
  return replace_all(replace_all(text, '\\', "\\\\"), '\'', "\\'");
}

std::string fish_values(const OptionRow& row) {
  switch (row.completes) {
    case Completes::kWords:
      return fmt::format(" -x -a '{}'", fmt::join(row.words, " "));
    case Completes::kFile:
      return " -r -F";
    case Completes::kFolder:
      return " -x -a '(__fish_complete_directories)'";
    case Completes::kModel:
      return " -x -a '(__fish_complete_directories; __llm_model_names)'";
    case Completes::kNothing:
      break;
  }
  return " -x";
}

std::string fish_option(const std::string& condition, const OptionRow& option) {
  std::string out = fmt::format("complete -c llm -n '{}'", condition);
  for (const std::string& flag : option.flags) {
    const bool is_long = flag.starts_with("--");
    out += fmt::format(" -{} {}", is_long ? "l" : "s", flag.substr(is_long ? 2 : 1));
  }
  if (!option.value.empty()) out += fish_values(option);
  return out + fmt::format(" -d '{}'\n", fish_text(option.help));
}

std::string fish_command(const CommandRow& command) {
  std::string out = fmt::format("complete -c llm -n __fish_use_subcommand -f -a {} -d '{}'\n",
                                command.name, fish_text(command.summary));
  const std::string condition = "__fish_seen_subcommand_from " + command.name;
  for (const OptionRow& option : command.options) out += fish_option(condition, option);
  const bool takes_value =
      !command.positionals.empty() && command.positionals.front().completes != Completes::kNothing;
  out += fmt::format("complete -c llm -n '{}'{}\n", condition,
                     takes_value ? fish_values(command.positionals.front()) : " -f");
  return out;
}

}  // namespace

std::string bash_completion(const CommandTable& table) {
  std::string out = kHowToLoadBash;
  out += fmt::format("\n_llm_model_names() {{ {}; }}", model_names("\"${COMP_WORDS[0]}\""));
  out += kBashHelpers;
  out += kBashBegin;
  out += "  case \"$command $before\" in\n";
  out += bash_value_cases(table.program);
  for (const CommandRow& command : table.commands) out += bash_value_cases(command);
  out += "  esac\n  case $command in\n";
  out += fmt::format("    '') flags='{}'; [[ $current = -* ]] || flags='{}' ;;\n",
                     joined_flags(table.program, " "), command_names(table));
  out += fmt::format("    help) flags='{}' ;;\n", command_names(table).substr(5));
  for (const CommandRow& command : table.commands) out += bash_command_case(command);
  return out + "  esac\n  _llm_words \"$flags\"\n}\ncomplete -F _llm llm\n";
}

std::string zsh_completion(const CommandTable& table) {
  std::string out =
      "#compdef llm\n# Completion of llm for zsh: put this file as _llm into a folder of "
      "$fpath.\n\n";
  out += fmt::format("_llm_model_names() {{ {}; }}\n", model_names("\"${words[1]}\""));
  out += "_llm_models() {\n  _files -/\n  compadd -- ${(f)\"$(_llm_model_names)\"}\n}\n\n";
  out += "_llm() {\n  local context state line\n  local -a commands\n  commands=(\n";
  for (const CommandRow& command : table.commands) {
    out += fmt::format("    '{}:{}'\n", command.name, in_quotes(command.summary));
  }
  out += "    'help:Help on a command'\n  )\n";
  out += "  " + zsh_arguments(table.program) +
         " \\\n        '1:command:->command' '*::argument:->argument'\n";
  out += "  case $state in\n    command) _describe command commands ;;\n    argument)\n";
  out += "      case $line[1] in\n        help) _describe command commands ;;\n";
  for (const CommandRow& command : table.commands) {
    out += fmt::format("        {})\n      {}\n      ;;\n", command.name, zsh_arguments(command));
  }
  return out + "      esac ;;\n  esac\n}\n\n_llm \"$@\"\n";
}

std::string fish_completion(const CommandTable& table) {
  std::string out = kHowToLoadFish;
  out += fmt::format("\nfunction __llm_model_names\n  {}\nend\n\n",
                     "set -l program (commandline -opc)\n  " + model_names("$program[1]"));
  for (const OptionRow& option : table.program.options) {
    out += fish_option("__fish_use_subcommand", option);
  }
  out += "complete -c llm -n __fish_use_subcommand -f -a help -d 'Help on a command'\n";
  out += fmt::format("complete -c llm -n '__fish_seen_subcommand_from help' -f -a '{}'\n",
                     command_names(table).substr(5));
  for (const CommandRow& command : table.commands) out += fish_command(command);
  return out;
}

}  // namespace llm
