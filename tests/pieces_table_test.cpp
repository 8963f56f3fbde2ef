// llm tokenize --pieces.
#include "cli/pieces_table.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cli/line_editor.h"
#include "run_llm.h"
#include "terminal_session.h"
#include "test_data.h"

namespace llm {
namespace {

const char* const kModel = "tests/goldens/tokenizers/gpt2";

std::string visible(std::string_view bytes) { return visible_piece(bytes, false).text; }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("pieces: what can't be seen is written out") {
  CHECK(visible("") == "");
  CHECK(visible("the") == "the");
  CHECK(visible(" a  ") == "\u2423a\u2423\u2423");
  CHECK(visible("\r\n\t\\n") == "\\r\\n\\t\\\\n");
  CHECK(visible(std::string_view("\0\x1b\x7f", 3)) == "\\x00\\x1B\\x7F");
  CHECK(visible("\u3000\u00a0\u200b\u202e\ufeff") == "\\u{3000}\\u{A0}\\u{200B}\\u{202E}\\u{FEFF}");
  CHECK(visible("\U0001f600\u4e16") == "\U0001f600\u4e16");
  CHECK(visible("\u2423") == "\\u{2423}");
  CHECK(visible("\U000e0041\ue000\u0378") == "\\u{E0041}\\u{E000}\\u{378}");
}

TEST_CASE("pieces: a part of a character is its bytes") {
  CHECK(visible("\xe4") == "\\xE4");
  CHECK(visible("a\xe4\xb8") == "a\\xE4\\xB8");
  CHECK(visible("\x96\xe7\x95\x8c") == "\\x96\u754c");
}

TEST_CASE("pieces: a mark needs something to stand on") {
  CHECK(visible("e\u0301\u0302") == "e\u0301\u0302");
  CHECK(visible("\u0301") == "\u25cc\u0301");
  CHECK(visible(" \u0301") == "\u2423\u25cc\u0301");
}

TEST_CASE("pieces: columns") {
  REQUIRE(set_utf8_locale());
  CHECK(visible_piece("ab", true).width == 2);
  CHECK(visible_piece("\u4e16\u754c", false).width == 4);
  CHECK(visible_piece("e\u0301", false).width == 1);
  CHECK(visible_piece(" \n", true).width == 3);
  CHECK(visible_piece(" ", true).text == "\x1b[33m\u2423\x1b[0m");
}

TEST_CASE("tokenize --pieces: a table") {
  const LlmResult result =
      run_llm({"tokenize", "-m", kModel, "--pieces", "\u4eca\u5929 <|endoftext|>\n"});
  CHECK(result.exit_code == 0);
  CHECK(result.out ==
        " id  piece          bytes\n"
        "355  \u4eca\u5929           e4 bb 8a e5 a4 a9\n"
        "220  \u2423              20\n"
        "600  <|endoftext|>  3c 7c 65 6e 64 6f 66 74 65 78 74 7c 3e\n"
        "198  \\n             0a\n");
  CHECK(run_llm({"tokenize", "-m", kModel, "--pieces", ""}).out == "id  piece  bytes\n");
}

TEST_CASE("tokenize --pieces: colours on a terminal, unless NO_COLOR is set") {
  LLM_SKIP_WITHOUT_TERMINAL("colours of --pieces");
  TerminalCall call{.args = {"tokenize", "-m", kModel, "--pieces", "a b"}};
  TerminalSession coloured(call);
  CHECK(coloured.exit_code() == 0);
  CHECK(contains(coloured.output(), "\x1b[33m\u2423\x1b[0m"));
  call.environment = {"NO_COLOR=1"};
  TerminalSession plain(call);
  CHECK(plain.exit_code() == 0);
  CHECK(contains(plain.output(), "\u2423"));
  CHECK_FALSE(contains(plain.output(), "\x1b["));
}

}  // namespace llm
