// Help, manual page, reference and shell completion say all that the parser knows.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/closest.h"
#include "checkpoint_maker.h"
#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// What `llm WORDS` prints; it must end with 0 and print nothing to stderr.
std::string output(const std::vector<std::string>& args) {
  const LlmResult r = run_llm(args);
  CAPTURE(args.back());
  CHECK(r.exit_code == 0);
  CHECK(r.err.empty());
  return r.out;
}

/// Commands as `llm --help` lists them.
std::vector<std::string> commands() {
  std::vector<std::string> names;
  bool listed = false;
  for (const std::string& line : lines_of(output({"--help"}))) {
    if (line.empty()) listed = false;
    if (listed && line[2] != ' ') names.push_back(words_of(line).front());
    if (line == "Commands:") listed = true;
  }
  CHECK(names.size() >= 5);
  return names;
}

/// The option table of a command as its help prints it: "-m, --model DIR|NAME" and so on, the
/// words before the explanations.
std::vector<std::vector<std::string>> options_in_help(const std::string& help) {
  std::vector<std::vector<std::string>> options;
  for (const std::string& line : lines_of(help)) {
    if (!line.starts_with("  -")) continue;
    const size_t end = line.find("  ", 2);
    std::vector<std::string> words = words_of(line.substr(0, end));
    for (std::string& word : words) {
      if (word.ends_with(',')) word.pop_back();
    }
    options.push_back(words);
  }
  return options;
}

/// Runs a shell command; its output, and its exit code.
std::pair<std::string, int> shell(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string out;
  for (int c; (c = std::fgetc(pipe)) != EOF;) out += static_cast<char>(c);
  const int status = ::pclose(pipe);
  return {out, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

bool have_tool(const char* name) {
  return shell(std::string("command -v ") + name + " >/dev/null").second == 0;
}

std::string written(const char* name, const std::string& text) {
  const std::filesystem::path path = fresh_test_dir("cli-help") / name;
  write_text(path, text);
  return path.string();
}

/// Words that bash offers after this command line.
std::set<std::string> completed(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += " '" + word + "'";
  const std::string script =
      output({"--completion", "bash"}) + "COMP_WORDS=(" + line +
      ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_llm\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
  const auto [out, code] = shell("bash " + written("complete.bash", script));
  CHECK(code == 0);
  const std::vector<std::string> offered = lines_of(out);
  return {offered.begin(), offered.end()};
}

}  // namespace

TEST_CASE("help: our words, 80 columns, an example") {
  std::vector<std::string> all = commands();
  all.pop_back();  // "help" itself
  for (const std::string& command : all) {
    CAPTURE(command);
    const std::string help = output({command, "--help"});
    CHECK(output({"help", command}) == help);
    CHECK(contains(help, "Usage: llm " + command + " [OPTIONS]"));
    CHECK(contains(help, "Example:\n  llm " + command));
    for (const char* jargon : {"Excludes", "Needs:", "REQUIRED", ":INT", ":FLOAT", "Positionals"}) {
      CHECK_FALSE(contains(help, jargon));
    }
    for (const std::string& line : lines_of(help)) CHECK_MESSAGE(line.size() <= 80, line);
  }
  const std::string help = output({"--help"});
  CHECK(output({"help"}) == help);
  CHECK(contains(help, "Exit codes:\n  0 "));
  CHECK(contains(help, "LLM_MODEL"));
}

TEST_CASE("manual page, reference and completions have every option of every command") {
  const std::string man = output({"--man"});
  const std::string reference = output({"--reference"});
  const std::string bash = output({"--completion", "bash"});
  const std::string zsh = output({"--completion", "zsh"});
  const std::string fish = output({"--completion", "fish"});
  for (const std::string& command : commands()) {
    if (command == "help") continue;
    const std::string section = reference.substr(reference.find("\n## llm " + command + "\n"));
    const std::string of_command = section.substr(0, section.find("\n## ", 1));
    for (const std::vector<std::string>& option : options_in_help(output({command, "--help"}))) {
      for (const std::string& word : option) {
        CAPTURE(command);
        CAPTURE(word);
        CHECK(contains(of_command, word));
        if (!word.starts_with("-")) continue;
        std::string escaped;
        for (const char c : word) escaped += c == '-' ? "\\-" : std::string(1, c);
        CHECK(contains(man, "\\fB" + escaped + "\\fR"));
        CHECK(contains(bash, word));
        CHECK(contains(zsh, "*" + word));
        const std::string name = word.substr(word.find_first_not_of('-'));
        CHECK(contains(fish, (word.starts_with("--") ? " -l " : " -s ") + name + " "));
      }
    }
  }
}

TEST_CASE("completion for bash offers commands, options, words and files") {
  std::vector<std::string> names = commands();
  CHECK(completed({"llm", ""}) == std::set<std::string>(names.begin(), names.end()));
  CHECK(completed({"llm", "ru"}) == std::set<std::string>{"run"});
  CHECK(completed({"llm", "help", "tok"}) == std::set<std::string>{"tokenize"});
  CHECK(completed({"llm", "run", "--max"}) ==
        std::set<std::string>{"--max-num-batched-tokens", "--max-num-seqs", "--max-tokens"});
  CHECK(completed({"llm", "--model", "run", "in"}) == std::set<std::string>{"inspect"});
  for (const std::vector<std::string>& start :
       {std::vector<std::string>{"llm", "run", "--think", "o"},
        {"llm", "run", "--think", "=", "o"}}) {
    CHECK(completed(start) == std::set<std::string>{"on", "off"});
  }
  CHECK(completed({"llm", "run", "--think", "="}) == std::set<std::string>{"on", "off", "auto"});
  CHECK(completed({"llm", "run", "-f", "Makef"}) == std::set<std::string>{"Makefile"});
  CHECK(completed({"llm", "run", "--tokenizer", "Makef"}) == std::set<std::string>{""});
  CHECK(completed({"llm", "run", "-m", "test"}).count("tests") == 1);
  CHECK(completed({"llm", "inspect", "test"}).count("tests") == 1);
  CHECK(completed({"llm", "run", "--system", ""}) == std::set<std::string>{""});
}

TEST_CASE("completion for zsh") {
  if (!have_tool("zsh")) return skip_test("completion for zsh", "zsh", false);
  const auto result = shell("zsh -n " + written("_llm", output({"--completion", "zsh"})));
  CHECK(result.first == "");
  CHECK(result.second == 0);
}

TEST_CASE("completion for fish") {
  if (!have_tool("fish")) return skip_test("completion for fish", "fish", false);
  const std::string file = written("llm.fish", output({"--completion", "fish"}));
  const auto offered = [&](const std::string& line) {
    return shell("fish --no-config -c \"source " + file + "; complete -C '" + line + "'\"").first;
  };
  CHECK(contains(offered("llm "), "tokenize\t"));
  CHECK(contains(offered("llm run --max"), "--max-tokens\t"));
  CHECK(contains(offered("llm run --think "), "auto"));
  CHECK_FALSE(contains(offered("llm run --"), "--decode"));
}

TEST_CASE("manual page without a formatter's complaint") {
  const std::string file = written("llm.1", output({"--man"}));
  if (have_tool("mandoc")) {
    // The page is the same on every day, so it has no date.
    CHECK(shell("mandoc -T lint -W warning " + file + " | grep -v 'missing date'").first == "");
  } else if (have_tool("groff")) {
    CHECK(shell("groff -ww -man -Tascii " + file + " >/dev/null").first == "");
  } else {
    skip_test("manual page without a formatter's complaint", "mandoc or groff", false);
  }
}

TEST_CASE("a mistyped option or command: did you mean ...?") {
  const auto message = [](const std::vector<std::string>& args) {
    const LlmResult r = run_llm(args);
    CHECK(r.exit_code == 2);
    CHECK(r.out.empty());
    return r.err;
  };
  CHECK(message({"run", "--max-token", "5", "x"}) ==
        "llm: unknown option --max-token: did you mean --max-tokens?\nSee `llm run --help`.\n");
  CHECK(contains(message({"run", "--max-token=5", "x"}), "did you mean --max-tokens?"));
  CHECK(contains(message({"run", "--sytem", "s", "x"}), "did you mean --system?"));
  CHECK(contains(message({"run", "-temp", "0", "x"}), "-temp: did you mean --temp?"));
  CHECK(contains(message({"tokenise"}), "unknown command tokenise: did you mean tokenize?"));
  CHECK(contains(message({"--versoin"}), "did you mean --version?"));
  CHECK_FALSE(contains(message({"run", "--frobnicate", "x"}), "did you mean"));
  CHECK(contains(message({"run", "-q", "-v", "x"}), "can't be used together"));
  CHECK(contains(message({"tokenize", "x", "--decode", "1"}), "can't be used together"));
  CHECK(contains(message({"inspect", ""}), "MODEL \"\""));
  CHECK(contains(message({"help", "frob"}), "unknown command frob"));
  const std::string no_model = message({"tokenize", "-m", "/nope", "x"});
  CHECK(contains(no_model, "/nope"));
  CHECK(contains(no_model, "tokenizer.json"));
  CHECK_FALSE(contains(no_model, "config.json"));
  CHECK_FALSE(contains(no_model, "safetensors"));
}

TEST_CASE("closest: small slips, and the beginning of one word only") {
  const std::vector<std::string> words = {"--max-tokens", "--temp", "--top-k", "--top-p"};
  CHECK(closest("--max-toekns", words) == "--max-tokens");
  CHECK(closest("--TEMP", words) == "--temp");
  CHECK(closest("--max", words) == "--max-tokens");
  CHECK_FALSE(closest("--something-else", words).has_value());
  CHECK_FALSE(closest("", words).has_value());
  CHECK_FALSE(closest("x", {"y"}).has_value());
  CHECK_FALSE(closest(std::string(100000, 'x'), words).has_value());
}

TEST_CASE("tokenize --decode - reads ids from stdin") {
  LLM_SKIP_WITHOUT_DATA("tokenize --decode -");
  const std::string model = (shared_data() / "fixtures" / "qwen3-bf16-tied").string();
  const LlmResult ids = run_llm({"tokenize", "-m", model, "hello, world"});
  const LlmResult text = run_llm({"tokenize", "-m", model, "--decode", "-"}, ids.out);
  CHECK(text.exit_code == 0);
  CHECK(text.out == "hello, world");
  CHECK(run_llm({"tokenize", "-m", model, "--decode", "-"}, "1 x").exit_code == 2);
  CHECK(run_llm({"tokenize", "-m", model, "--decode", "-"}, "").out == "");
}

}  // namespace llm
