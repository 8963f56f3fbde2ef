// Tool calls taken out of an answer, however the text is cut.
#include "text/tool_calls.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace llm {
namespace {

struct Case {
  std::string text;
  std::string content;
  std::vector<ToolCall> calls;
  size_t problems = 0;
};

struct Result {
  ToolCallSplitter::Output out;
  size_t problems = 0;
};

void add(ToolCallSplitter::Output& all, const ToolCallSplitter::Output& piece) {
  all.content += piece.content;
  all.calls.insert(all.calls.end(), piece.calls.begin(), piece.calls.end());
}

/// The joined output of the text in pieces of this size after a first one of `first` bytes.
Result split(const std::string& text, size_t first, size_t size, bool active = true) {
  ToolCallSplitter splitter(active);
  Result all{splitter.push(text.substr(0, first))};
  for (size_t pos = first; pos < text.size(); pos += size) {
    add(all.out, splitter.push(std::string_view(text).substr(pos, size)));
  }
  add(all.out, splitter.finish());
  all.problems = splitter.problems().size();
  return all;
}

std::string call(const std::string& json) { return "<tool_call>\n" + json + "\n</tool_call>"; }

void check_in_all_pieces(const Case& c) {
  for (size_t first = 0; first <= c.text.size(); ++first) {
    for (const size_t size : {size_t{1}, size_t{3}, size_t{1000}}) {
      const Result got = split(c.text, first, size);
      CAPTURE(c.text);
      CAPTURE(first);
      CHECK(got.out.content == c.content);
      CHECK(got.out.calls == c.calls);
      CHECK(got.problems == c.problems);
    }
  }
}

}  // namespace

TEST_CASE("V1: tool calls are taken out, in whatever pieces they come") {
  const std::string odd = R"({"c":"mkdir {a,b}","s":"说明\"}"})";
  const std::string paris = R"({"name": "w", "arguments": {"city": "Paris"}})";
  const ToolCall w{"w", R"({"city": "Paris"})"};
  const std::string quoted = R"({"name": "w", "arguments": "{\"city\": \"Paris\"}"})";
  const std::string marked =
      R"({"name": "x", "arguments": {"t": "a </tool_call> b <tool_call> {"}})";
  for (const Case& c : {
           Case{call(R"({"name": "sh", "arguments": )" + odd + "}"), "", {{"sh", odd}}},
           Case{call(paris), "", {w}},
           Case{"Let me see.\n\n" + call(paris) + "\n", "Let me see.", {w}},
           Case{call(paris) + "\n" + call(paris), "", {w, w}},
           Case{call(paris) + call(quoted), "", {w, w}},
           Case{"a\n" + call(paris) + "\nb\n", "a\nb\n", {w}},
           Case{call(paris) + "\n\nb", "b", {w}},
           Case{call(marked), "", {{"x", R"({"t": "a </tool_call> b <tool_call> {"})"}}},
           Case{"<tool_call>" + paris + "</tool_call>", "", {w}},
           Case{"<tool_call>" + paris, "", {w}},
           Case{"<tool_call>" + paris + "\n</tool", "", {w}},
           Case{call(R"({"name": "now"})"), "", {{"now", "{}"}}},
           Case{call(R"({"name": "now", "arguments": null})"), "", {{"now", "{}"}}},
           Case{call(R"({"arguments": { "n" : [1, -2.5e+3, true] }, "id": 7, "name": "f"})"),
                "",
                {{"f", R"({ "n" : [1, -2.5e+3, true] })"}}},
           Case{call(R"({"\u006eame": "f", "arguments": {"b": 123456789012345678901234567890}})"),
                "",
                {{"f", R"({"b": 123456789012345678901234567890})"}}},
           Case{"plain\n\ntext\n", "plain\n\ntext\n", {}},
           Case{"a <tool_cal", "a <tool_cal", {}},
           Case{"a </tool_call> b", "a </tool_call> b", {}},
           Case{"", "", {}},
           Case{"\n\n", "\n\n", {}},
       }) {
    check_in_all_pieces(c);
  }
}

TEST_CASE("V1: broken tool calls stay text and are reported") {
  const std::string good = R"({"name": "w", "arguments": {}})";
  const ToolCall w{"w", "{}"};
  for (const std::string& text : {
           std::string("<tool_call>"),
           call(""),
           call("w(city)"),
           call(R"({"name": "w", "arguments": {"city": "Par)"),
           call(R"({"name": "w", "arguments": {"city": "Paris"})"),
           call(R"({"name": "w", "arguments": {}}})"),
           call(R"({"name": "w" "arguments": {}})"),
           call(R"({"name": "w", "arguments": {},})"),
           call(R"({'name': 'w'})"),
           call(R"({"name": "w", "arguments": {"n": 01}})"),
           call(R"({"name": "w", "arguments": {"n": 1.}})"),
           call(R"({"name": "w", "arguments": {"n": -}})"),
           call(R"({"name": "w", "arguments": {"n": 1e}})"),
           call(R"({"name": "w", "arguments": {"n": nul}})"),
           call(R"({"name": "w", "arguments": {"n": "\x41"}})"),
           call(R"({"name": "w", "arguments": {"n": "\u12g4"}})"),
           call("{\"name\": \"w\", \"arguments\": {\"n\": \"two\nlines\"}}"),
           call(R"({"name": "w", "arguments": [1]})"),
           call(R"({"name": "w", "arguments": "[1]"})"),
           call(R"({"name": "w", "arguments": 7})"),
           call(R"({"name": "", "arguments": {}})"),
           call(R"({"name": 7, "arguments": {}})"),
           call(R"({"arguments": {}})"),
           call("{}"),
           call("[" + good + "]"),
           call(good + good),
           call("<function=w>\n</function>"),
       }) {
    check_in_all_pieces({text, text, {}, 1});
    check_in_all_pieces({"so:\n" + text + "\n.\n", "so:\n" + text + "\n.\n", {}, 1});
    // What comes after it is still looked at.
    const bool open_string = text.find("Par\n") != std::string::npos;
    if (!open_string) check_in_all_pieces({text + "\n" + call(good), text, {w}, 1});
  }
  check_in_all_pieces({"<tool_call>\n" + call(good), "<tool_call>", {w}, 1});
}

TEST_CASE("tool calls: text is given out as soon as it is certain") {
  ToolCallSplitter splitter(true);
  CHECK(splitter.push("abc").content == "abc");
  CHECK(splitter.push("\n").content.empty());
  CHECK(splitter.push("d<").content == "\nd");
  CHECK(splitter.push("b").content == "<b");
  CHECK(splitter.push("<tool_call>{").content.empty());
  CHECK(splitter.push("x").content == "<tool_call>{x");  // a call no more
  CHECK(splitter.push(call(R"({"name": "f"})")).calls.size() == 1);
}

TEST_CASE("tool calls: nothing is split off where no tools were offered") {
  const std::string text = "a\n" + call(R"({"name": "f"})") + "\n";
  const Result got = split(text, 5, 2, /*active=*/false);
  CHECK(got.out.content == text);
  CHECK(got.out.calls.empty());
  CHECK(got.problems == 0);
}

TEST_CASE("tool calls: hostile answers take linear time and bounded depth") {
  std::string many, deep = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ";
  for (int i = 0; i < 20000; ++i) many += "<tool_call>{\"";
  for (int i = 0; i < 100000; ++i) deep += "[";
  CHECK(split(many, 0, 7).out.content == many);
  CHECK(split(deep, 0, 7).out.content == deep);
}

}  // namespace llm
