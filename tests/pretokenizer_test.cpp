// Cutting a text into pieces.
#include "text/pretokenizer.h"

#include <doctest/doctest.h>

#include <string>

#include "pieces.h"
#include "test_data.h"
#include "text/utf8.h"
#include "text_goldens.h"

namespace llm {
namespace {

Pieces qwen(std::string_view text) {
  return cut(PreTokenizer({scanner_for_pattern(kQwenRegex)}), text);
}

Pieces gpt2(std::string_view text) { return cut(PreTokenizer({scan_gpt2}), text); }

Pieces smollm2(std::string_view text) { return cut(PreTokenizer({scan_digits, scan_gpt2}), text); }

}  // namespace

TEST_CASE("pretokenize.jsonl") {
  LLM_SKIP_WITHOUT_DATA("pretokenize.jsonl");
  check_goldens("pretokenize.jsonl", [](const JsonValue& line) {
    Pieces expected;
    for (const JsonValue& piece : at(line, "pieces").array) expected.push_back(piece.string);
    return qwen(at(line, "text").string) == expected;
  });
}

TEST_CASE("Qwen's pattern, alternative by alternative") {
  CHECK(qwen("") == Pieces{});
  CHECK(qwen("I'LL we'Ve it'\u017f 'x") ==
        Pieces{"I", "'LL", " we", "'Ve", " it", "'\u017f", " '", "x"});
  CHECK(qwen("(x):\n\n a") == Pieces{"(x", "):\n\n", " a"});
  CHECK(qwen("->12\u2167") == Pieces{"->", "1", "2", "\u2167"});
  CHECK(qwen("hello \n\n  world") == Pieces{"hello", " \n\n", " ", " world"});
  CHECK(qwen("a  ") == Pieces{"a", "  "});
  CHECK(qwen("a\u3000\u3000b") == Pieces{"a", "\u3000", "\u3000b"});
  CHECK(qwen("\r\n\tb \t!") == Pieces{"\r\n", "\tb", " ", "\t", "!"});
}

TEST_CASE("GPT-2's pattern") {
  CHECK(gpt2("we'll WE'LL") == Pieces{"we", "'ll", " WE", "'", "LL"});
  CHECK(gpt2(" 123abc  x") == Pieces{" 123", "abc", " ", " x"});
  CHECK(gpt2("a\n\nb") == Pieces{"a", "\n", "\n", "b"});
  CHECK(gpt2(" ") == Pieces{" "});
  CHECK(gpt2("a \n") == Pieces{"a", " \n"});
}

TEST_CASE("the second scanner sees no further than the first one's piece") {
  CHECK(smollm2("ab12 3") == Pieces{"ab", "1", "2", " ", "3"});
  // Before a digit the run of spaces is a text's end, so none is left to go with what follows.
  CHECK(smollm2("a  1") == Pieces{"a", "  ", "1"});
  CHECK(smollm2("a  b") == Pieces{"a", " ", " b"});
}

TEST_CASE("any text is cut into whole characters that join to it") {
  const std::vector<std::string> alphabet = {
      "a",  "Z",  "'",  "s",      "\u017f", "1", "\u2167", " ",
      "\n", "\r", "\t", "\u3000", "!",      "-", "\u0301", "\U0001f600"};
  uint32_t state = 1;
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) {
      state = state * 1664525 + 1013904223;
      text += alphabet[(state >> 16) % alphabet.size()];
    }
    for (const auto& split : {qwen, gpt2, smollm2}) {
      std::string joined;
      for (const std::string& piece : split(text)) {
        REQUIRE(!piece.empty());
        REQUIRE(is_valid_utf8(piece));
        joined += piece;
      }
      REQUIRE(joined == text);
    }
  }
}

}  // namespace llm
