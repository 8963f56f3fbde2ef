// Lines of `llm tokenize --jsonl`.
#include "cli/tokenize_jsonl.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "run_llm.h"
#include "test_data.h"
#include "text_goldens.h"

namespace llm {
namespace {

std::string answer(std::string_view line) { return tokenize_jsonl_line(line, qwen3_tokenizer()); }

std::string refusal(std::string_view line) {
  try {
    return "answered: " + answer(line);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("tokenize --jsonl: texts and ids") {
  LLM_SKIP_WITHOUT_DATA("tokenize --jsonl");
  CHECK(answer(R"({"text":"<|im_end|><think>"})") == R"({"ids":[151645,151667]})");
  CHECK(answer(R"({"text":"<|im_end|><think>","special":false})") ==
        R"({"ids":[27,91,318,6213,91,29,151667]})");
  CHECK(answer(R"({"text":"<|im_end|>","plain":true})") == R"({"ids":[27,91,318,6213,91,29]})");
  CHECK(answer(R"({"text":"","plain":null})") == R"({"ids":[]})");
  CHECK(answer(R"({"ids":[9707,151645]})") == R"({"text":"Hello<|im_end|>"})");
  CHECK(answer(R"({"ids":[9707,151645],"skip_special":true})") == R"({"text":"Hello"})");
  CHECK(answer(R"({"ids":[9284,198,1]})") == "{\"text\":\"\ufffd\\n\\\"\"}");
}

TEST_CASE("tokenize --jsonl: many lines are answered in order, wherever a read ends") {
  const std::filesystem::path dir = fresh_test_dir("jsonl-many");
  const std::filesystem::path model = "tests/goldens/tokenizers/llama3";
  const Tokenizer tokenizer = Tokenizer::load(model / "tokenizer.json");
  std::string input;
  std::string expected;
  for (int i = 1; i <= 20000; ++i) {
    if (i % 7 == 0) {
      input += i % 2 == 0 ? "\n" : " \r\n";
      continue;
    }
    // Lengths from a few bytes to more than one read.
    const std::string line = fmt::format("{{\"text\":\"{} {}\"{}}}", i,
                                         std::string(i % 5000 == 1 ? 200000 : i % 90, 'x'),
                                         i % 11 == 0 ? ",\"no\":1" : "");
    input += line + (i == 20000 ? "" : "\n");
    expected += i % 11 == 0 ? fmt::format(
                                  "{{\"error\":\"unknown key \\\"no\\\"; known here: text, "
                                  "special, plain\",\"line\":{}}}",
                                  i)
                            : tokenize_jsonl_line(line, tokenizer);
    expected += '\n';
  }
  std::ofstream(dir / "in.jsonl") << input;
  const std::vector<std::string> args = {"tokenize", "-m", model.string(), "--jsonl"};
  const auto answers = [&](const std::string& file, const std::string& stdin_text) {
    std::vector<std::string> all = args;
    all.push_back(file);
    const LlmResult result = run_llm(all, stdin_text);
    CHECK(result.exit_code == 1);
    CHECK(result.err.empty());
    return result.out;
  };
  CHECK((answers((dir / "in.jsonl").string(), "") == expected));
  CHECK((answers("-", input) == expected));
}

TEST_CASE("tokenize --jsonl: ill-formed UTF-8 in one of many lines is one warning") {
  std::string input;
  for (int i = 0; i < 100; ++i) input += i % 40 == 5 ? "{\"text\":\"\xff\"}\n" : "{\"ids\":[]}\n";
  const LlmResult result =
      run_llm({"tokenize", "-m", "tests/goldens/tokenizers/gpt2", "--jsonl", "-"}, input);
  CHECK(result.exit_code == 0);
  CHECK(result.err == "warning: --jsonl -: ill-formed UTF-8 became U+FFFD\n");
  CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 100);
}

TEST_CASE("tokenize --jsonl: lines that can't be used") {
  LLM_SKIP_WITHOUT_DATA("tokenize --jsonl errors");
  CHECK(refusal("[1").find("not valid JSON") != std::string::npos);
  CHECK(refusal("7").find("expected an object") != std::string::npos);
  CHECK(refusal("{}").find("either \"text\" or \"ids\"") != std::string::npos);
  CHECK(refusal(R"({"text":"a","ids":[]})").find("either") != std::string::npos);
  CHECK(refusal(R"({"text":1})").find("\"text\"") != std::string::npos);
  CHECK(refusal(R"({"text":"a","speical":true})").find("\"speical\"") != std::string::npos);
  CHECK(refusal(R"({"text":"a","special":1})").find("\"special\"") != std::string::npos);
  CHECK(refusal(R"({"ids":1})").find("\"ids\"") != std::string::npos);
  CHECK(refusal(R"({"ids":[0,-1]})").find("\"ids\"[1]") != std::string::npos);
  CHECK(refusal(R"({"ids":[0.5]})").find("\"ids\"[0]") != std::string::npos);
  CHECK(refusal(R"({"ids":[2147483648]})").find("\"ids\"[0]") != std::string::npos);
}

}  // namespace llm
