// Small tokenizers of many kinds against the reference's ids, and texts that once differed.
//
// scripts/make_tokenizer_goldens.py makes the tokenizers; scripts/fuzz_tokenizer.py finds the
// texts.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "test_data.h"
#include "text/tokenizer.h"
#include "text_goldens.h"

namespace llm {
namespace {

namespace fs = std::filesystem;

const fs::path kTokenizers = "tests/goldens/tokenizers";

AddedTokens mode_of(const JsonValue& line) {
  const std::string& mode = at(line, "mode").string;
  if (mode == "plain") return AddedTokens::kNone;
  return mode == "no-special" ? AddedTokens::kNonSpecial : AddedTokens::kAll;
}

bool encodes_as_told(const Tokenizer& tokenizer, const JsonValue& line) {
  return tokenizer.encode_prompt(at(line, "text").string, mode_of(line)) == ids_of(at(line, "ids"));
}

}  // namespace

TEST_CASE("tokenizers of many kinds") {
  std::vector<fs::path> folders;
  for (const auto& folder : fs::directory_iterator(kTokenizers)) folders.push_back(folder.path());
  std::sort(folders.begin(), folders.end());
  CHECK(folders.size() > 12);
  for (const fs::path& folder : folders) {
    const std::string name = folder.filename().string();
    CAPTURE(name);
    const Tokenizer tokenizer = Tokenizer::load(folder / "tokenizer.json");
    check_golden_lines(folder / "encode.jsonl", "tokenizers/" + name,
                       [&](const JsonValue& line) { return encodes_as_told(tokenizer, line); });
  }
}

TEST_CASE("texts that once differed from the reference") {
  std::map<std::string, Tokenizer> small;
  bool skipped_qwen3 = false;
  check_golden_lines(
      "tests/goldens/tokenizer_found.jsonl", "tokenizer_found.jsonl", [&](const JsonValue& line) {
        const std::string& name = at(line, "tokenizer").string;
        if (name == "qwen3-tokenizer") {
          skipped_qwen3 |= !have_shared_data();
          return !have_shared_data() || encodes_as_told(qwen3_tokenizer(), line);
        }
        if (!small.contains(name)) {
          small.emplace(name, Tokenizer::load(kTokenizers / name / "tokenizer.json"));
        }
        return encodes_as_told(small.at(name), line);
      });
  if (skipped_qwen3) skip_test("tokenizer_found.jsonl: Qwen3's", "shared data", true);
}

TEST_CASE("decode undoes encode for tokenizers that keep every byte") {
  for (const char* name : {"llama3", "gpt4o", "deepseek3", "qwen3.5", "lazy", "merged"}) {
    CAPTURE(name);
    const Tokenizer tokenizer = Tokenizer::load(kTokenizers / name / "tokenizer.json");
    for (const char* text :
         {"Hello, <|begin|>world<|end|>! 1234567\r\n\tx", "\u4eca\u5929 \u00e9\U0001f600", ""}) {
      CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
    }
  }
}

TEST_CASE("what a span forbids stays plain text where tokens are looked for after normalization") {
  // Its token "Caf\u00e9" is found in normalized text, in which a span's text may have moved.
  const Tokenizer tokenizer = Tokenizer::load(kTokenizers / "strip" / "tokenizer.json");
  const int32_t cafe = tokenizer.id_of("Caf\u00e9").value();
  const auto count = [&](const std::string& text, size_t begin, size_t end) {
    const TextSpan span = {begin, end, AddedTokens::kNone};
    const std::vector<int32_t> ids = tokenizer.encode(text, AddedTokens::kAll, {&span, 1});
    return std::count(ids.begin(), ids.end(), cafe);
  };
  const std::string decomposed = "Cafe\u0301";  // 6 bytes, 5 once composed
  const std::string text = decomposed + "-" + decomposed + "-" + decomposed;
  CHECK(count(text, 0, 0) == 3);
  CHECK(count(text, 0, 6) == 2);
  CHECK(count(text, 7, 13) == 2);
  CHECK(count(text, 14, 20) == 2);
  CHECK(count(text, 6, 7) == 3);
  CHECK(count(text, 0, text.size()) == 0);
  // A mark from a span joins the letter before it, and with that forbids the token.
  CHECK(count(decomposed, 4, 6) == 0);
}

}  // namespace llm
