// Lines of `llm tokenize --jsonl`.
#include "cli/tokenize_jsonl.h"

#include <doctest/doctest.h>

#include <string>

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
