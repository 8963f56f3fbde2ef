// Character classes, NFC and UTF-8 repair.
#include "text/unicode.h"

#include <doctest/doctest.h>

#include "test_data.h"
#include "text/utf8.h"
#include "text_goldens.h"

namespace llm {

TEST_CASE("nfc.jsonl") {
  LLM_SKIP_WITHOUT_DATA("nfc.jsonl");
  check_goldens("nfc.jsonl", [](const JsonValue& line) {
    const std::string& expected = at(line, "nfc").string;
    const std::string& text = at(line, "text").string;
    return to_nfc(text) == expected && to_nfc(expected) == expected &&
           (!is_surely_nfc(text) || text == expected);
  });
}

TEST_CASE("the class of every code point is that of the tables") {
  LLM_SKIP_WITHOUT_DATA("unicode_tables.json");
  const JsonValue tables = read_json_file(shared_data() / "goldens" / "unicode_tables.json");
  std::vector<CharClass> expected(0x110000, CharClass::kOther);
  for (const auto& [key, value] :
       {std::pair{"L", CharClass::kLetter}, {"N", CharClass::kNumber}, {"S", CharClass::kSpace}}) {
    for (const JsonValue& range : at(tables, key).array) {
      for (int64_t c = range.array[0].integer; c <= range.array[1].integer; ++c) {
        expected[c] = value;
      }
    }
  }
  int differing = 0;
  for (char32_t c = 0; c < 0x110000; ++c) differing += char_class(c) != expected[c];
  CHECK(differing == 0);
}

TEST_CASE("every decomposition of the tables comes back from NFC") {
  LLM_SKIP_WITHOUT_DATA("unicode_tables.json");
  const JsonValue tables = read_json_file(shared_data() / "goldens" / "unicode_tables.json");
  int composed = 0;
  for (const JsonValue& entry : at(tables, "compose").array) {
    std::string parts, whole;
    append_utf8(parts, static_cast<char32_t>(entry.array[0].integer));
    append_utf8(parts, static_cast<char32_t>(entry.array[1].integer));
    append_utf8(whole, static_cast<char32_t>(entry.array[2].integer));
    composed += to_nfc(parts) == whole;
  }
  CHECK(composed == static_cast<int>(at(tables, "compose").array.size()));
}

TEST_CASE("NFC: Hangul by formula, singletons, order of marks, blocked marks") {
  CHECK(to_nfc("\u1112\u1161\u11ab") == "\ud55c");
  CHECK(to_nfc("\u1112\u1161") == "\ud558");
  CHECK(to_nfc("\ud558\u11ab") == "\ud55c");
  CHECK(to_nfc("\ud55c\u11ab") == "\ud55c\u11ab");  // has a trailing consonant already
  CHECK(to_nfc("\u212b") == "\u00c5");
  CHECK(to_nfc("a\u0301\u0327") == "\u00e1\u0327");
  CHECK(to_nfc("a\u0302\u0301") == "\u1ea5");
  CHECK(to_nfc("a\u0315\u0300\u05ae\u0300") == "\u00e0\u05ae\u0300\u0315");
  CHECK(to_nfc("x e\u0301 y") == "x \u00e9 y");
  CHECK(to_nfc("\u0301") == "\u0301");
  CHECK(to_nfc("") == "");
}

TEST_CASE("text without suspicious characters is known to be NFC") {
  CHECK(is_surely_nfc(""));
  CHECK(is_surely_nfc("plain caf\u00e9 \u54c8\u54c8 \ud55c\uae00"));
  CHECK_FALSE(is_surely_nfc("cafe\u0301"));
  CHECK_FALSE(is_surely_nfc("\u212b"));
  CHECK_FALSE(is_surely_nfc("\u1112\u1161"));
}

TEST_CASE("each maximal ill-formed part becomes one U+FFFD") {
  const auto repaired = [](std::string_view text) {
    bool replaced = false;
    const std::string out = replace_invalid_utf8(text, &replaced);
    CHECK(replaced == !is_valid_utf8(text));
    return out;
  };
  CHECK(repaired("") == "");
  CHECK(repaired("caf\u00e9 \u54c8 \U0001fae0") == "caf\u00e9 \u54c8 \U0001fae0");
  CHECK(repaired("\xe6\xad") == "\ufffd");
  CHECK(repaired("\xe6\xad|") == "\ufffd|");
  CHECK(repaired("\xc0\x80") == "\ufffd\ufffd");                      // overlong
  CHECK(repaired("\xed\xa0\x80") == "\ufffd\ufffd\ufffd");            // surrogate
  CHECK(repaired("\xf4\x90\x80\x80") == "\ufffd\ufffd\ufffd\ufffd");  // above U+10FFFF
  CHECK(repaired("\xf0\x9f\xab") == "\ufffd");
  CHECK(repaired("\xf0\x9f\xf0\x9f\xab\xa0") == "\ufffd\U0001fae0");
  CHECK(repaired("\x80"
                 "a\xff") ==
        "\ufffd"
        "a\ufffd");
  CHECK(repaired(std::string("12345678\xff\0z", 11)) == std::string("12345678\ufffd\0z", 13));
}

TEST_CASE("every code point survives being written and read") {
  int wrong = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    std::string text;
    append_utf8(text, c);
    const CodePoint read = code_point_at(text, 0);
    wrong += read.value != c || read.length != text.size() || !is_valid_utf8(text);
  }
  CHECK(wrong == 0);
}

}  // namespace llm
