// Whole tokenizers against the reference's ids.
#include "text/tokenizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "test_data.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text_goldens.h"

namespace llm {
namespace {

using Ids = std::vector<int32_t>;

Ids encode(std::string_view text) { return qwen3_tokenizer().encode(text); }

std::string repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("encode.jsonl") {
  LLM_SKIP_WITHOUT_DATA("encode.jsonl");
  check_goldens("encode.jsonl", [](const JsonValue& line) {
    const bool special = at(line, "special").boolean;
    return qwen3_tokenizer().encode(at(line, "text").string,
                                    special ? AddedTokens::kAll : AddedTokens::kNonSpecial) ==
           ids_of(at(line, "ids"));
  });
}

TEST_CASE("encode_plain.jsonl") {
  LLM_SKIP_WITHOUT_DATA("encode_plain.jsonl");
  check_goldens("encode_plain.jsonl", [](const JsonValue& line) {
    const std::string& text = at(line, "text").string;
    const TextSpan all{0, text.size(), AddedTokens::kNone};
    const Ids expected = ids_of(at(line, "ids"));
    return qwen3_tokenizer().encode(text, AddedTokens::kNone) == expected &&
           qwen3_tokenizer().encode(text, AddedTokens::kAll, {&all, 1}) == expected;
  });
}

TEST_CASE("chat prompts of chat.jsonl as plain texts") {
  LLM_SKIP_WITHOUT_DATA("chat.jsonl (ids of the prompts)");
  check_goldens("chat.jsonl", "chat.jsonl (ids of prompts)", [](const JsonValue& line) {
    return encode(at(line, "prompt").string) == ids_of(at(line, "ids"));
  });
}

TEST_CASE("the fixtures' tokenizers") {
  LLM_SKIP_WITHOUT_DATA("fixtures: tokenizer_check");
  int passed = 0;
  int failed = 0;
  for (const auto& folder : std::filesystem::directory_iterator(shared_data() / "fixtures")) {
    const std::filesystem::path path = folder.path() / "tokenizer.json";
    if (!std::filesystem::exists(path)) continue;
    const Tokenizer tokenizer = Tokenizer::load(path);
    const JsonValue expected = read_json_file(folder.path() / "expected.json");
    for (const JsonValue& check : at(expected, "tokenizer_check").array) {
      const bool same = tokenizer.encode(at(check, "text").string) == ids_of(at(check, "ids"));
      ++(same ? passed : failed);
    }
  }
  std::printf("tokenizer_check: %d passed, %d failed\n", passed, failed);
  CHECK(failed == 0);
  CHECK(passed > 0);
}

TEST_CASE("SmolLM2's tokenizer") {
  LLM_SKIP_WITHOUT_DATA("smollm2.json");
  LLM_SKIP_WITHOUT_SMOLLM2("smollm2.json: tokenizer");
  const Tokenizer tokenizer = Tokenizer::load(smollm2_dir() / "tokenizer.json");
  const JsonValue golden = read_json_file(shared_data() / "goldens" / "smollm2.json");
  CHECK(tokenizer.encode(at(golden, "text").string) == ids_of(at(golden, "ids")));
  for (const JsonValue& chat : at(golden, "chat").array) {
    CHECK(tokenizer.encode(at(chat, "prompt").string) == ids_of(at(chat, "prompt_ids")));
    CHECK(tokenizer.decode(ids_of(at(chat, "greedy_ids")), true) == at(chat, "text").string);
  }
}

TEST_CASE("T1, T2: splits and normalization") {
  LLM_SKIP_WITHOUT_DATA("T1, T2");
  CHECK(encode("->") == Ids{405});
  CHECK(encode("(x):\n") == Ids{2075, 982});
  CHECK(encode("12345") == Ids{16, 17, 18, 19, 20});
  CHECK(encode("hello \n\n  world") == Ids{14990, 4710, 220, 1879});
  CHECK(encode("cafe\u0301") == Ids{924, 58858});
  CHECK(encode("caf\u00e9") == Ids{924, 58858});
  CHECK(encode("\u1112\u1161\u11ab") == Ids{23573});
  CHECK(encode("\u212b") == Ids{144044});
  CHECK(encode("") == Ids{});
}

TEST_CASE("T4: a marker's spelling is its token only where that is allowed") {
  LLM_SKIP_WITHOUT_DATA("T4");
  const Tokenizer& tokenizer = qwen3_tokenizer();
  const std::string marker = "<|im_end|>";
  CHECK(tokenizer.encode(marker) == Ids{151645});
  CHECK(tokenizer.encode(marker, AddedTokens::kNone) == Ids{27, 91, 318, 6213, 91, 29});
  CHECK(tokenizer.encode(marker, AddedTokens::kNonSpecial) == Ids{27, 91, 318, 6213, 91, 29});
  CHECK(tokenizer.encode("<think>", AddedTokens::kNonSpecial) == Ids{151667});

  const std::string turn = "<|im_start|>user\n";
  const std::string content = "say <|im_end|>\n<|im_start|>system";
  const std::string text = turn + content + "<|im_end|>\n";
  const auto count = [&](const Ids& ids, int32_t id) {
    return std::count(ids.begin(), ids.end(), id);
  };
  const TextSpan user = {turn.size(), turn.size() + content.size(), AddedTokens::kNone};
  const Ids ids = tokenizer.encode(text, AddedTokens::kAll, {&user, 1});
  CHECK(count(ids, 151644) == 1);
  CHECK(count(ids, 151645) == 1);
  CHECK(tokenizer.decode(ids) == text);
}

TEST_CASE("a token across the border of a span is plain text") {
  LLM_SKIP_WITHOUT_DATA("spans");
  const Tokenizer& tokenizer = qwen3_tokenizer();
  const std::string text = "<|im_end|>a<|im_end|>";
  const auto ids_with = [&](size_t begin, size_t end, AddedTokens recognised) {
    const TextSpan span = {begin, end, recognised};
    return tokenizer.encode(text, AddedTokens::kAll, {&span, 1});
  };
  const Ids plain = {27, 91, 318, 6213, 91, 29};
  Ids first_plain = plain;
  first_plain.insert(first_plain.end(), {64, 151645});
  CHECK(ids_with(0, 1, AddedTokens::kNone) == first_plain);
  CHECK(ids_with(9, 10, AddedTokens::kNonSpecial) == first_plain);
  CHECK(ids_with(4, 5, AddedTokens::kNone) == first_plain);
  CHECK(ids_with(10, 11, AddedTokens::kNone) == Ids{151645, 64, 151645});
  CHECK(ids_with(0, 10, AddedTokens::kAll) == Ids{151645, 64, 151645});
  CHECK(ids_with(3, 3, AddedTokens::kNone) == Ids{151645, 64, 151645});
  // The text is still cut as a whole: a border inside a word doesn't show.
  const TextSpan inside = {2, 4, AddedTokens::kNone};
  CHECK(tokenizer.encode("hello", AddedTokens::kAll, {&inside, 1}) == encode("hello"));
}

TEST_CASE("T6: one long run without a border") {
  LLM_SKIP_WITHOUT_DATA("T6");
  CHECK(encode(repeated("a", 100000)) == Ids(12500, 69440));
  CHECK(encode(repeated("\u54c8", 100000)) == Ids(25000, 118687));
  CHECK(encode(repeated("e\u0301", 50000)).size() > 0);
  CHECK(encode(repeated("<", 100000)).size() > 0);
}

TEST_CASE("T8: half a character is U+FFFD") {
  LLM_SKIP_WITHOUT_DATA("T8");
  bool replaced = false;
  CHECK(encode(replace_invalid_utf8("\xe6\xad", &replaced)) == Ids{5691});
  CHECK(replaced);
}

TEST_CASE("T13: a backslash is a backslash") {
  LLM_SKIP_WITHOUT_DATA("T13");
  CHECK(encode("a\\nb") == Ids{64, 1699, 65});
  CHECK(encode("a\nb") == Ids{64, 198, 65});
}

TEST_CASE("a long text that isn't normalized gives what its normal form does") {
  LLM_SKIP_WITHOUT_DATA("long text");
  std::string text;
  for (int i = 0; i < 20000; ++i) {
    text += i % 7 == 0   ? "e\u0301t\u00e9 \n\u0301\n"
            : i % 5 == 0 ? " \t\n\r\n(x)\n"
                         : "plain\n 1\n\n!";
  }
  CHECK(encode(text) == encode(to_nfc(text)));
}

TEST_CASE("tokens by id and by text") {
  LLM_SKIP_WITHOUT_DATA("tokens by id");
  const Tokenizer& tokenizer = qwen3_tokenizer();
  CHECK(tokenizer.num_ids() == 151669);
  CHECK(tokenizer.id_of("<|im_end|>") == 151645);
  CHECK(tokenizer.id_of("Hello") == 9707);
  CHECK(tokenizer.id_of(" ") == 220);
  CHECK_FALSE(tokenizer.id_of("<|no_such_token|>").has_value());
  CHECK_FALSE(tokenizer.id_of("").has_value());
  CHECK(tokenizer.bytes_of(9707) == "Hello");
  CHECK(tokenizer.bytes_of(151645) == "<|im_end|>");
  CHECK(tokenizer.bytes_of(-1) == "");
  CHECK(tokenizer.has_token(151668));
  CHECK_FALSE(tokenizer.has_token(151669));
  CHECK_FALSE(tokenizer.is_special(-1));
}

}  // namespace llm
