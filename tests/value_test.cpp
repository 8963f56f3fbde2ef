// Values as Python prints, compares and reads them.
#include "text/value.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"

namespace llm {
namespace {

Value json(std::string_view text) { return parse_json_value(text, "test.json"); }

std::string refusal(std::string_view text) {
  try {
    json(text);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kRefused);
    return error.what();
  }
  return "";
}

bool equal(const Value& a, const Value& b) {
  Budget budget;
  return equals(a, b, budget);
}

}  // namespace

TEST_CASE("floats print as Python's repr") {
  CHECK(float_repr(1.0) == "1.0");
  CHECK(float_repr(-0.0) == "-0.0");
  CHECK(float_repr(0.1 + 0.2) == "0.30000000000000004");
  CHECK(float_repr(100.0) == "100.0");
  CHECK(float_repr(1e15) == "1000000000000000.0");
  CHECK(float_repr(1e16) == "1e+16");
  CHECK(float_repr(1.5e16) == "1.5e+16");
  CHECK(float_repr(0.0001) == "0.0001");
  CHECK(float_repr(1e-5) == "1e-05");
  CHECK(float_repr(5e-324) == "5e-324");
  CHECK(float_repr(1.7976931348623157e308) == "1.7976931348623157e+308");
  CHECK(float_repr(std::numeric_limits<double>::infinity()) == "inf");
  CHECK(float_repr(std::nan("")) == "nan");
}

TEST_CASE("repr quotes and escapes as Python") {
  CHECK(to_repr(Value("it's")).str() == "\"it's\"");
  CHECK(to_repr(Value("a'b\"c")).str() == "'a\\'b\"c'");
  CHECK(to_repr(Value("\n\t\\\x01\x7f")).str() == "'\\n\\t\\\\\\x01\\x7f'");
  CHECK(to_repr(Value("é中😀")).str() == "'é中😀'");
  CHECK(to_repr(Value("\u00a0\u200b\u2028\ufeff")).str() == "'\\xa0\\u200b\\u2028\\ufeff'");
  CHECK(to_repr(json("{\"a\": [null, true, 1.0], \"b\": {}}")).str() ==
        "{'a': [None, True, 1.0], 'b': {}}");
  CHECK(to_repr(Value::list({Value(1)}, ListKind::kTuple)).str() == "(1,)");
}

TEST_CASE("json keeps order and digits, and the last of equal keys wins") {
  const Value value = json(R"({"z": 1, "a": 2, "z": 3, "n": 123456789012345678901234567890})");
  CHECK(to_json(value).str() == R"({"z": 3, "a": 2, "n": 123456789012345678901234567890})");
  CHECK(json("-9223372036854775808").as_int() == std::numeric_limits<int64_t>::min());
  CHECK(json("9223372036854775808").is_big_int());
  CHECK(to_json(json("[1e15, 1E2, -0.0, 1e400]")).str() ==
        "[1000000000000000.0, 100.0, -0.0, Infinity]");
  CHECK(json(R"("\u00e9\ud83d\ude00\n\/")").as_string() == "é😀\n/");
  CHECK(json("\xEF\xBB\xBF [1]").is_list());
}

TEST_CASE("json.dumps formats") {
  const Value value = json(R"({"b": [1, {"c": []}], "a": "é\u007f\u2028/<"})");
  CHECK(to_json(value).str() == "{\"b\": [1, {\"c\": []}], \"a\": \"é\x7f\u2028/<\"}");
  JsonFormat format;
  format.indent = "  ";
  format.item_separator = Text(",");
  format.sort_keys = true;
  format.ensure_ascii = true;
  CHECK(to_json(value, format).str() ==
        "{\n  \"a\": \"\\u00e9\\u007f\\u2028/<\",\n  \"b\": [\n    1,\n    {\n      \"c\": []\n"
        "    }\n  ]\n}");
  CHECK_THROWS_AS(to_json(Value()), ValueError);
}

TEST_CASE("bad json is refused with its place") {
  CHECK(refusal("{\n  \"é\": nul}").find("test.json: line 2, column 8:") == 0);
  for (const char* text :
       {"", "[1,]", "{\"a\" 1}", "{a: 1}", "01", "1.", "-", "\"a", "\"\\x\"", "\"\\ud800\"",
        "\"\\udc00\\ud800\"", "\"\n\"", "[1] 2", "NaN", "\"\xff\"", "tru", "'a'"}) {
    CAPTURE(text);
    CHECK(refusal(text) != "");
  }
  CHECK(refusal(std::string(100000, '[')).find("nested") != std::string::npos);
}

TEST_CASE("comparisons follow Python") {
  CHECK(equal(Value(1), Value(1.0)));
  CHECK(equal(Value(true), Value(1)));
  CHECK_FALSE(equal(Value("1"), Value(1)));
  CHECK_FALSE(equal(Value::none(), Value(false)));
  CHECK(equal(json("{\"a\": 1, \"b\": 2}"), json("{\"b\": 2, \"a\": 1.0}")));
  Budget budget;
  CHECK(compare(json("[1, 2]"), json("[1, 3]"), "<", budget) < 0);
  CHECK(compare(json("99999999999999999999"), Value(5), "<", budget) > 0);
  CHECK_THROWS_AS(compare(Value(1), Value("a"), "<", budget), ValueError);
}

TEST_CASE("comparing is bounded even where lists share their parts") {
  Value shared = Value::list({Value(1)});
  Value other = Value::list({Value(1)});
  for (int i = 0; i < 100; ++i) {
    shared = Value::list({shared, shared});
    other = Value::list({other, other});
  }
  Budget budget;
  CHECK_THROWS_AS(equals(shared, other, budget), ValueError);
  CHECK_THROWS_AS(to_json(shared), ValueError);
}

TEST_CASE("nesting of values is bounded") {
  Value value = Value::list({});
  const auto nest = [&] {
    for (int i = 0; i < 1000; ++i) value = Value::list({value});
  };
  CHECK_THROWS_AS(nest(), ValueError);
}

TEST_CASE("texts keep the origin of every byte") {
  Text text("ab");
  text.append("cd", Origin::kContent);
  text.append(Text("ef", Origin::kContent));
  text.append("g", Origin::kAssistant);
  text.append("h");
  REQUIRE(text.runs().size() == 4);
  CHECK(text.origin_at(1) == Origin::kTemplate);
  CHECK(text.origin_at(2) == Origin::kContent);
  CHECK(text.origin_at(5) == Origin::kContent);
  CHECK(text.origin_at(6) == Origin::kAssistant);
  CHECK(text.origin_at(7) == Origin::kTemplate);
  const Text middle = text.slice(1, 7);
  CHECK(middle.str() == "bcdefg");
  CHECK(middle.origin_at(0) == Origin::kTemplate);
  CHECK(middle.origin_at(1) == Origin::kContent);
  CHECK(middle.origin_at(5) == Origin::kAssistant);
  CHECK(Text("ab").runs().empty());
}

TEST_CASE("printing a marked value marks its punctuation too") {
  const Value value = with_origin(json(R"({"k": ["v\n", 1]})"), Origin::kContent);
  for (const Text& text : {to_json(value), to_repr(value)}) {
    CAPTURE(text.str());
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text.view()[i];
      const bool is_number_or_quote = c == '1' || c == '"' || c == '\'';
      if (!is_number_or_quote) CHECK(text.origin_at(i) == Origin::kContent);
    }
  }
}

}  // namespace llm
