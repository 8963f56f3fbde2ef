// Regular expressions of "Split" steps.
#include "text/split_pattern.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "base/error.h"
#include "pieces.h"
#include "test_data.h"
#include "text_goldens.h"

namespace llm {
namespace {

const char* const kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// The matches of a pattern, with the rest left out.
Pieces matches(std::string_view regex, std::string_view text) {
  return cut(PreTokenizer({Split(SplitPattern(regex), SplitBehavior::kRemoved, true)}), text);
}

Pieces split(SplitBehavior behavior, bool invert, std::string_view text) {
  return cut(PreTokenizer({Split(SplitPattern("[,;]"), behavior, invert)}), text);
}

std::string refusal(std::string_view regex) {
  try {
    SplitPattern{regex};
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kRefused);
    return error.what();
  }
  return "accepted";
}

/// Texts of up to 24 characters that the patterns tell apart.
class RandomTexts {
 public:
  std::string next() {
    static const std::vector<std::string> kAlphabet = {
        "a",      "Z",      "s",      "S",          "T",      "l",      "re",     "'",
        "\u017f", "\u212a", "\u00e9", "\u0301",     "\u0903", "\u4eca", "\uac00", "\u01c5",
        "1",      "\u0663", "\u2167", "\u00bd",     " ",      " ",      "\n",     "\r",
        "\t",     "\u3000", "\u0085", "\u200b",     "!",      "-",      "/",      "\u20ac",
        "\u2028", "\u0378", "\ue000", "\U0001f600", "\ufffd", "\0",     "\x1c",   "\U00016d40"};
    std::string text;
    for (size_t length = random_() % 24; length > 0; --length) {
      text += kAlphabet[random_() % kAlphabet.size()];
    }
    return text;
  }

 private:
  std::mt19937 random_{20240601};
};

}  // namespace

TEST_CASE("alternatives, classes and quantifiers") {
  CHECK(matches("a|ab|c", "abac") == Pieces{"a", "a", "c"});
  CHECK(matches("ab*", "abbba") == Pieces{"abbb", "a"});
  CHECK(matches("ab+?", "abbba") == Pieces{"ab"});
  CHECK(matches("ab??c", "abcac") == Pieces{"abc", "ac"});
  CHECK(matches("b*+b|a", "bba") == Pieces{"a"});
  CHECK(matches("\\d{2,3}", "1234561") == Pieces{"123", "456"});
  CHECK(matches("\\d{2}", "12345") == Pieces{"12", "34"});
  CHECK(matches("a{2,}", "aaab aa a") == Pieces{"aaa", "aa"});
  CHECK(matches("(?:ab){,2}c", "abababc") == Pieces{"ababc"});
  CHECK(matches("(ab|a)*b", "aabab") == Pieces{"aabab"});
  CHECK(matches("[a-c\\]x-]+", "ab]x-d") == Pieces{"ab]x-"});
  CHECK(matches("[^a[bc]\\s]+", "ab xy c\u00e9") == Pieces{"xy", "\u00e9"});
  CHECK(matches(".+", "ab\nc") == Pieces{"ab", "c"});
  CHECK(matches("\\x41\\x{4eca}\\u00e9", "A\u4eca\u00e9") == Pieces{"A\u4eca\u00e9"});
  CHECK(matches("\\p{Lu}\\P{Lu}|\\p{^L}|\\S", "Ab1c") == Pieces{"Ab", "1", "c"});
  CHECK(matches("\\.\\-\\*", "a.-*") == Pieces{".-*"});
}

TEST_CASE("lookahead") {
  CHECK(matches("\\s+(?!\\S)", "a  b  ") == Pieces{" ", "  "});
  CHECK(matches("a(?=b|c)", "abacad") == Pieces{"a", "a"});
  CHECK(matches("\\d{1,3}(?=(?:\\d{3})*(?!\\d))", "1234567") == Pieces{"1", "234", "567"});
}

TEST_CASE("letters without case") {
  CHECK(matches("(?i:'s|k)", "'S '\u017f '\u212a K") == Pieces{"'S", "'\u017f", "\u212a", "K"});
  CHECK(matches("(?i:[rS])+x", "rsRSx rs") == Pieces{"rsRSx"});
  CHECK(matches("(?i:a)b", "Ab AB") == Pieces{"Ab"});
}

TEST_CASE("what isn't supported is named") {
  for (const std::string regex :
       {"^a",       "a$",     "\\ba",        "\\w+",        "(?<=a)b", "(?<!a)b", "(?>a)",
        "(?x:a)",   "(?i)a",  "[a&&b]",      "[[:alpha:]]", "a{2}?",   "a{2}+",   "a**",
        "\\p{Han}", "\\pL",   "(?i:\\p{L})", "(a)++",       "\\1",     "*a",      "a{",
        "a{2",      "a{3,2}", "a{0}",        "\\xff",       "\\u{61}", "[b-a]"}) {
    CAPTURE(regex);
    const std::string message = refusal(regex);
    CAPTURE(message);
    CHECK(message.find("isn't supported") != std::string::npos);
  }
  for (const std::string regex :
       {"", "a*", "a|", "(?=a)", "(a", "a)", "[a", "[", "a\\", "\\p{L", "(a*)*", "(?i:ss)",
        "(?i:\u00e9)", "[]a]", "a{1001}", "((ab){1000}){1000}", "\xff"}) {
    CAPTURE(regex);
    CHECK(refusal(regex) != "accepted");
  }
  CHECK(refusal(std::string(100000, '(')).find("deeper") != std::string::npos);
  CHECK(refusal(std::string(100000, '[')).find("deeper") != std::string::npos);
}

TEST_CASE("a pattern that backtracks without end is stopped") {
  const std::string text(2000, 'a');
  CHECK_THROWS_AS(matches("(?:a|aa)+b", text), Error);
  CHECK_THROWS_AS(matches("(?:a+)+b", text), Error);
}

TEST_CASE("split behaviors") {
  const std::string text = "a,;b;";
  CHECK(split(SplitBehavior::kIsolated, false, text) == Pieces{"a", ",", ";", "b", ";"});
  CHECK(split(SplitBehavior::kRemoved, false, text) == Pieces{"a", "b"});
  CHECK(split(SplitBehavior::kMergedWithPrevious, false, text) == Pieces{"a,", ";", "b;"});
  CHECK(split(SplitBehavior::kMergedWithNext, false, text) == Pieces{"a", ",", ";b", ";"});
  CHECK(split(SplitBehavior::kContiguous, false, text) == Pieces{"a", ",;", "b", ";"});
  CHECK(split(SplitBehavior::kRemoved, true, text) == Pieces{",", ";", ";"});
  CHECK(split(SplitBehavior::kMergedWithPrevious, true, text) == Pieces{"a", ",", ";b", ";"});
  CHECK(split(SplitBehavior::kMergedWithNext, true, text) == Pieces{"a,", ";", "b;"});
  CHECK(split(SplitBehavior::kContiguous, true, text) == Pieces{"a", ",;", "b", ";"});
}

TEST_CASE("the hand-written scanners equal their patterns") {
  struct Case {
    const char* regex;
    Scanner scanner;
  };
  RandomTexts texts;
  for (const Case& test :
       {Case{kQwenRegex, scanner_for_pattern(kQwenRegex)}, Case{kGpt2Regex, scan_gpt2}}) {
    REQUIRE((test.scanner != nullptr));
    const PreTokenizer fast({test.scanner});
    const PreTokenizer general({Split(SplitPattern(test.regex), SplitBehavior::kIsolated, false)});
    for (int i = 0; i < 100000; ++i) {
      const std::string text = texts.next();
      if (cut(fast, text) == cut(general, text)) continue;
      CAPTURE(text);
      REQUIRE(cut(fast, text) == cut(general, text));
    }
  }
}

TEST_CASE("pretokenize.jsonl by the general matcher") {
  LLM_SKIP_WITHOUT_DATA("pretokenize.jsonl (general matcher)");
  const PreTokenizer general({Split(SplitPattern(kQwenRegex), SplitBehavior::kIsolated, false)});
  check_goldens("pretokenize.jsonl", "pretokenize.jsonl (general)", [&](const JsonValue& line) {
    Pieces expected;
    for (const JsonValue& piece : at(line, "pieces").array) expected.push_back(piece.string);
    return cut(general, at(line, "text").string) == expected;
  });
}

}  // namespace llm
