// Thought and answer, however the text is cut.
#include "text/reasoning.h"

#include <doctest/doctest.h>

#include <string>

namespace llm {
namespace {

struct Case {
  ReasoningStart start;
  std::string text;
  std::string reasoning;
  std::string content;
};

void add(ReasoningSplitter::Output& all, const ReasoningSplitter::Output& piece) {
  all.reasoning += piece.reasoning;
  all.content += piece.content;
}

/// The joined output of the text in pieces of this size after a first one of `first` bytes.
ReasoningSplitter::Output split(const Case& c, size_t first, size_t size) {
  ReasoningSplitter splitter(c.start);
  ReasoningSplitter::Output all = splitter.push(c.text.substr(0, first));
  for (size_t pos = first; pos < c.text.size(); pos += size) {
    add(all, splitter.push(std::string_view(c.text).substr(pos, size)));
  }
  add(all, splitter.finish());
  return all;
}

}  // namespace

TEST_CASE("thoughts are split off, in whatever pieces they come") {
  using enum ReasoningStart;
  for (const Case& c : {
           Case{kMayBegin, "<think>\nWhy.\n\nSo.\n</think>\n\nAnswer\n", "Why.\n\nSo.", "Answer\n"},
           Case{kMayBegin, "\n <think>a</think>b", "a", "b"},
           Case{kMayBegin, "no thought <think>x</think>", "", "no thought <think>x</think>"},
           Case{kMayBegin, " \nplain", "", " \nplain"},
           Case{kMayBegin, "<think>\n\n</think>\n\nhi", "", "hi"},
           Case{kMayBegin, "<thinker>", "", "<thinker>"},
           Case{kMayBegin, "<thi", "", "<thi"},
           Case{kMayBegin, "</think>x", "", "</think>x"},
           Case{kMayBegin, "<think>a</think>b<think>c</think>d", "a", "b<think>c</think>d"},
           Case{kMayBegin, "<think>never\n</thin", "never\n</thin", ""},
           Case{kMayBegin, "<think>never closed\n\n", "never closed", ""},
           Case{kMayBegin, "<think>", "", ""},
           Case{kMayBegin, "", "", ""},
           Case{kMayBegin, "\n\n", "", "\n\n"},
           Case{kInThought, "\nabc\n<b>\n</think>\n\nyes", "abc\n<b>", "yes"},
           Case{kInThought, "abc", "abc", ""},
           Case{kInThought, "</think>\n\nyes", "", "yes"},
           Case{kInThought, "思考</think>答", "思考", "答"},
           Case{kClosed, "answer", "", "answer"},
           Case{kClosed, "</think>\n\nanswer", "", "answer"},
           Case{kClosed, "<think>a</think>b", "a", "b"},
           Case{kClosed, "x </think>", "", "x </think>"},
           Case{kOff, "<think>a</think>b", "", "<think>a</think>b"},
       }) {
    for (size_t first = 0; first <= c.text.size(); ++first) {
      for (const size_t size : {size_t{1}, size_t{2}, size_t{3}, size_t{100}}) {
        const ReasoningSplitter::Output out = split(c, first, size);
        CAPTURE(c.text);
        CAPTURE(first);
        CHECK(out.reasoning == c.reasoning);
        CHECK(out.content == c.content);
      }
    }
  }
}

TEST_CASE("text is given out as soon as it is certain") {
  ReasoningSplitter splitter(ReasoningStart::kInThought);
  CHECK(splitter.push("abc").reasoning == "abc");
  CHECK(splitter.push("\n").reasoning.empty());
  CHECK(splitter.push("d<").reasoning == "\nd");
  CHECK(splitter.push("b").reasoning == "<b");
  CHECK(splitter.in_thought());
  CHECK(splitter.push("</think>").reasoning.empty());
  CHECK_FALSE(splitter.in_thought());
  CHECK(splitter.push("\nx").content == "x");
  CHECK(splitter.push("\n\n").content == "\n\n");
}

TEST_CASE("the prompt's end says where the answer starts") {
  CHECK(reasoning_start("<|im_start|>assistant\n", true) == ReasoningStart::kMayBegin);
  CHECK(reasoning_start("<|im_start|>assistant\n<think>\n", true) == ReasoningStart::kInThought);
  CHECK(reasoning_start("<|im_start|>assistant\n<think>\n\n</think>\n\n", true) ==
        ReasoningStart::kClosed);
  CHECK(reasoning_start("say <think><|im_end|>\n", true) == ReasoningStart::kMayBegin);
  CHECK(reasoning_start("", true) == ReasoningStart::kMayBegin);
  CHECK(reasoning_start("<think>\n", false) == ReasoningStart::kOff);
}

}  // namespace llm
