// Text out of a stream of ids.
#include <doctest/doctest.h>

#include "test_data.h"
#include "text/tokenizer.h"
#include "text_goldens.h"

namespace llm {

TEST_CASE("decode.jsonl") {
  LLM_SKIP_WITHOUT_DATA("decode.jsonl");
  check_goldens("decode.jsonl", [](const JsonValue& line) {
    return qwen3_tokenizer().decode(ids_of(at(line, "ids")), at(line, "skip_special").boolean) ==
           at(line, "text").string;
  });
}

TEST_CASE("stream.jsonl") {
  LLM_SKIP_WITHOUT_DATA("stream.jsonl");
  check_goldens("stream.jsonl", [](const JsonValue& line) {
    Detokenizer detokenizer(qwen3_tokenizer(), at(line, "skip_special").boolean);
    const std::vector<int32_t> ids = ids_of(at(line, "ids"));
    const std::string& expected = at(line, "text").string;
    std::string text;
    bool fits = true;
    for (size_t i = 0; i < ids.size(); ++i) {
      text += detokenizer.push(ids[i]);
      const auto length = static_cast<int64_t>(text.size());
      fits = fits && length >= at(line, "min").array[i].integer &&
             length <= at(line, "max").array[i].integer &&
             expected.compare(0, text.size(), text) == 0;
    }
    return fits && text + detokenizer.finish() == expected;
  });
}

TEST_CASE("D1: an emoji cut over several tokens appears once and whole") {
  LLM_SKIP_WITHOUT_DATA("D1");
  Detokenizer detokenizer(qwen3_tokenizer(), true);
  CHECK(detokenizer.push(9707) == "Hello");
  CHECK(detokenizer.push(9284) == "");
  CHECK(detokenizer.push(104) == "");
  CHECK(detokenizer.push(254) == "\U0001fae0");
  CHECK(detokenizer.push(151645) == "");
  CHECK(detokenizer.finish() == "");
}

TEST_CASE("D14: hiding special tokens keeps the tags of thoughts") {
  LLM_SKIP_WITHOUT_DATA("D14");
  const std::vector<int32_t> ids = {151667, 271, 151668, 271, 151645};
  CHECK(qwen3_tokenizer().decode(ids, true) == "<think>\n\n</think>\n\n");
  CHECK(qwen3_tokenizer().decode(ids) == "<think>\n\n</think>\n\n<|im_end|>");
  for (int32_t id = 151643; id <= 151668; ++id) {
    CHECK(qwen3_tokenizer().is_special(id) == (id <= 151656));
  }
}

TEST_CASE("ids without a token give nothing") {
  LLM_SKIP_WITHOUT_DATA("ids without a token");
  const std::vector<int32_t> ids = {-1, 9707, 151669, 2147483647, -2147483647 - 1};
  CHECK(qwen3_tokenizer().decode(ids) == "Hello");
  Detokenizer detokenizer(qwen3_tokenizer(), true);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.push(id);
  CHECK(text + detokenizer.finish() == "Hello");
}

TEST_CASE("an unfinished character at the end becomes U+FFFD, once") {
  LLM_SKIP_WITHOUT_DATA("unfinished character");
  Detokenizer detokenizer(qwen3_tokenizer(), false);
  CHECK(detokenizer.push(9284) == "");
  CHECK(detokenizer.finish() == "\ufffd");
  CHECK(detokenizer.finish() == "");
}

}  // namespace llm
