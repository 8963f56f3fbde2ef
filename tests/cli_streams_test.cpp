// Standard streams, signals and files as a shell hands them over: closed, full, in use.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint_maker.h"
#include "test_data.h"

namespace llm {
namespace {

/// stdout of a bash script in which $LLM is the program and $M the model.
std::string bash(const std::string& script, const std::string& model = "") {
  const char* binary = std::getenv("LLM_BINARY");
  ::setenv("LLM", std::filesystem::absolute(binary ? binary : "build/llm").c_str(), 1);
  ::setenv("M", model.c_str(), 1);
  const std::filesystem::path file = fresh_test_dir("cli-streams-script") / "script.sh";
  write_text(file, script);
  FILE* pipe = ::popen(("bash '" + file.string() + "'").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string out;
  std::array<char, 4096> block;
  while (const size_t got = std::fread(block.data(), 1, block.size(), pipe)) {
    out.append(block.data(), got);
  }
  ::pclose(pipe);
  return out;
}

std::string fixture() { return (shared_data() / "fixtures" / "qwen3-bf16-tied").string(); }

TEST_CASE("stderr closed, full or without a reader: messages are lost, nothing else") {
  for (const char* way : {"2>&-", "2>/dev/full", "2> >(exec true)"}) {
    CAPTURE(way);
    CHECK(bash("\"$LLM\" frob " + std::string(way) + "; echo $?") == "2\n");
  }
  LLM_SKIP_WITHOUT_DATA("broken-stderr");
  const std::string run =
      "\"$LLM\" run -m \"$M\" --token-ids '1 2' -n 2 --print-ids --stats --show-thinking "
      "--trace-shapes ";
  for (const char* way : {"2>&-", "2>/dev/full"}) {
    CAPTURE(way);
    CHECK(bash(run + way + " >/dev/null; echo $?", fixture()) == "0\n");
  }
}

TEST_CASE("a closed stderr's number doesn't go to a file that is opened later") {
  LLM_SKIP_WITHOUT_DATA("closed-stderr-file");
  const std::string npy = (fresh_test_dir("cli-closed-stderr") / "l.npy").string();
  const std::string call =
      "\"$LLM\" run -m \"$M\" --token-ids '1 2' -n 1 --greedy --stats --logits-out '" + npy + "' ";
  CHECK(bash(call + "2>&- >/dev/null; stat -c %s '" + npy + "'", fixture()) ==
        bash(call + "2>/dev/null >/dev/null; stat -c %s '" + npy + "'", fixture()));
}

constexpr const char* kCoprocess =
    "coproc L { exec \"$LLM\" tokenize -q -m \"$M\" --jsonl -; }\n"
    "ask() { echo '{\"ids\": [72]}' >&${L[1]}; read -r -t 60 answer <&${L[0]} && echo $answer; }\n";

TEST_CASE("tokenize --jsonl answers each line before the next is there") {
  LLM_SKIP_WITHOUT_DATA("jsonl-coprocess");
  const std::string answers = bash(std::string(kCoprocess) + "ask; ask", fixture());
  const std::string one = answers.substr(0, answers.find('\n') + 1);
  CHECK(one.starts_with("{\"text\""));
  CHECK(answers == one + one);
}

TEST_CASE("an interrupt that the parent ignores stays ignored") {
  LLM_SKIP_WITHOUT_DATA("ignored-interrupt");
  const std::string script = std::string(kCoprocess) + "ask; kill -INT $L_PID; ask";
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  CHECK(lines(bash("trap '' INT\n" + script, fixture())) == 2);
}

TEST_CASE("a model file that is cut short while in use ends in a message") {
  LLM_SKIP_WITHOUT_DATA("bus-error");
  const std::filesystem::path dir = fresh_test_dir("cli-bus-error") / "model";
  ScriptOptions options;
  options.loop = true;
  options.folder.tokenizer_json = qwen3_tokenizer_json();
  write_script(dir, std::vector<int32_t>{9707, 17453}, options);
  const std::string out = bash(
      "cd \"$M\"\n"
      "\"$LLM\" run -q -m . --raw Hello -n 30000 --ctx 32000 >out 2>err &\n"
      "until [ -s out ]; do sleep 0.05; done\n"
      "truncate -s 4096 model.safetensors\n"
      "wait $!; echo $?; cat err",
      dir.string());
  CHECK_MESSAGE(out.starts_with("1\nllm: a model file can't be read any more"), out);
}

TEST_CASE("tokenize --decode: ids without a token give nothing and one warning") {
  LLM_SKIP_WITHOUT_DATA("decode-unknown-ids");
  const std::string out = bash(
      "\"$LLM\" tokenize -m \"$M\" --decode '99999999 72 88888888' 2>&1 >/dev/null", fixture());
  CHECK(out.find("99999999") != std::string::npos);
  CHECK(out.find("88888888") == std::string::npos);
  CHECK(bash("\"$LLM\" tokenize -m \"$M\" --decode 72 2>&1 >/dev/null", fixture()).empty());
}

}  // namespace
}  // namespace llm
