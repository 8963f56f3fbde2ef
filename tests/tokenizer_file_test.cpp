// Reading tokenizer.json: both forms of merges, and what is refused.
#include "text/tokenizer_file.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "test_data.h"
#include "text_goldens.h"

namespace llm {
namespace {

using Json = nlohmann::json;

/// A complete tokenizer of four letters and one marker.
Json small_tokenizer() {
  return Json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 7, "content": "<end>", "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false, "special": true}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "\u0120": 3, "\u0120ab": 4},
              "merges": ["a b", "\u0120 ab"]}
  })");
}

Tokenizer load(const Json& json) { return load_tokenizer_text("tokenizer_file", json.dump()); }

/// The message that loading ends with; it must be a refusal.
std::string refusal(std::string_view text) {
  try {
    load_tokenizer_text("tokenizer_file", text);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kRefused);
    return error.what();
  }
  return "loaded";
}

/// The message after `value` is put at `where`.
std::string refusal_with(std::string_view where, const Json& value) {
  Json json = small_tokenizer();
  json[Json::json_pointer(std::string(where))] = value;
  return refusal(json.dump());
}

/// The message after `value` is put at `where` in a "Split" step.
std::string refusal_with_split(std::string_view where, const Json& value) {
  Json pre_tokenizer = Json::parse(R"({"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "\\s"}, "behavior": "Isolated", "invert": false},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})");
  pre_tokenizer["pretokenizers"][0][Json::json_pointer(std::string(where))] = value;
  return refusal_with("/pre_tokenizer", pre_tokenizer);
}

std::string refusal_without(const char* object, const char* key) {
  Json json = small_tokenizer();
  json[Json::json_pointer(object)].erase(key);
  return refusal(json.dump());
}

void check_names(const std::string& message, std::string_view what) {
  CAPTURE(message);
  CHECK(message.find("tokenizer.json") != std::string::npos);
  CHECK(message.find(what) != std::string::npos);
}

}  // namespace

TEST_CASE("a small tokenizer") {
  const Tokenizer tokenizer = load(small_tokenizer());
  CHECK(tokenizer.encode("ab ab<end>") == std::vector<int32_t>{2, 4, 7});
  CHECK(tokenizer.decode(std::vector<int32_t>{2, 4, 7}) == "ab ab<end>");
  CHECK(tokenizer.num_ids() == 8);
  CHECK_FALSE(tokenizer.has_token(5));
}

TEST_CASE("T11: merges as strings and as pairs") {
  Json json = small_tokenizer();
  json["model"]["merges"] = Json::parse(R"([["a", "b"], ["\u0120", "ab"]])");
  CHECK(load(json).encode("ab ab<end>") == std::vector<int32_t>{2, 4, 7});

  for (const char* bad : {R"("ab")", R"("a b ")", R"(" b")", R"("a")", R"(["a"])", R"([])",
                          R"(["a","b","b"])", R"(["a",1])", R"([["a"],"b"])", "1", "null", "{}"}) {
    CAPTURE(bad);
    check_names(refusal_with("/model/merges/1", Json::parse(bad)), "model.merges[1]");
  }
  check_names(refusal_with("/model/merges/1", "a x"), "model.merges[1]: \"x\"");
  check_names(refusal_with("/model/merges/1", "b a"), "model.merges[1]: \"ba\"");
  check_names(refusal_with("/model/merges/1", "a b"), "model.merges[1]");
}

TEST_CASE("T11: Qwen3's tokenizer with the other form gives the same ids") {
  LLM_SKIP_WITHOUT_DATA("T11");
  std::ifstream in(qwen3_tokenizer_json());
  Json json = Json::parse(in);
  for (Json& merge : json["model"]["merges"]) {
    REQUIRE(merge.is_array());
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  const Tokenizer rewritten = load(json);
  check_goldens("encode.jsonl", "encode.jsonl (T11)", [&](const JsonValue& line) {
    const std::string& text = at(line, "text").string;
    return rewritten.encode(text) == qwen3_tokenizer().encode(text);
  });
}

TEST_CASE("malformed files") {
  check_names(refusal(""), "empty");
  check_names(refusal("{\"model\": {\"vocab\": {\"a\": 0"), "not valid JSON");
  check_names(refusal(small_tokenizer().dump() + "}"), "not valid JSON");
  check_names(refusal(std::string("{}\0{}", 5)), "NUL");
  check_names(refusal("[]"), "object");
  check_names(refusal("\"\xff\""), "not valid JSON");
  check_names(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), "pointer");
  check_names(refusal(std::string(100000, '[')), "deeper");
  check_names(refusal("{\"model\":{\"vocab\":{\"a\":" + std::string(100000, '{')), "model.vocab");
  check_names(refusal(R"({"decoder":null,"decoder":null})"), "twice");
  CHECK_THROWS_AS(Tokenizer::load("no/such/folder/tokenizer.json"), Error);
  CHECK_THROWS_AS(Tokenizer::load("/"), Error);
}

TEST_CASE("vocabularies that make no sense") {
  check_names(refusal_without("/model", "vocab"), "model.vocab");
  check_names(refusal_without("/model", "merges"), "model.merges");
  check_names(refusal_with("/model/vocab", Json::array()), "model.vocab");
  check_names(refusal_with("/model/merges", Json::object()), "model.merges");
  for (const char* bad : {"-1", "4194304", "1e3", "18446744073709551615", "\"0\"", "null", "[0]",
                          "99999999999999999999999999"}) {
    CAPTURE(bad);
    check_names(refusal_with("/model/vocab/c", Json::parse(bad)), "model.vocab[\"c\"]");
  }
  check_names(refusal_with("/model/vocab/c", 2), "model.vocab[\"c\"]");
  std::string twice = small_tokenizer().dump();
  twice.replace(twice.find("\"b\":1"), 5, "\"a\":1");
  check_names(refusal(twice), "model.vocab[\"a\"]");
}

TEST_CASE("added tokens that make no sense") {
  check_names(refusal_with("/added_tokens", 1), "added_tokens");
  check_names(refusal_with("/added_tokens/0", 1), "added_tokens[0]");
  check_names(refusal_with("/added_tokens/0/id", -1), "added_tokens[0].id");
  check_names(refusal_with("/added_tokens/0/id", "7"), "added_tokens[0].id");
  check_names(refusal_with("/added_tokens/0/id", 1), "added_tokens[0]");
  check_names(refusal_with("/added_tokens/0/content", "ab"), "added_tokens[0]");
  check_names(refusal_with("/added_tokens/0/content", ""), "added_tokens[0].content");
  check_names(refusal_with("/added_tokens/0/special", 1), "added_tokens[0].special");
  for (const std::string key : {"lstrip", "rstrip", "single_word", "normalized"}) {
    check_names(refusal_with("/added_tokens/0/" + key, 1), "added_tokens[0]." + key);
  }
  Json same = small_tokenizer()["added_tokens"][0];
  check_names(refusal_with("/added_tokens/1", same), "added_tokens[1]");
  same["id"] = 8;
  check_names(refusal_with("/added_tokens/1", same), "added_tokens[1]");
}

TEST_CASE("an added token may be in the vocabulary too") {
  Json json = small_tokenizer();
  json["model"]["vocab"]["<end>"] = 7;
  CHECK(load(json).encode("ab<end>") == std::vector<int32_t>{2, 7});
  CHECK(load(json).encode("<end>", AddedTokens::kNone).empty());
}

TEST_CASE("of an added token's text the longest match counts, also where it isn't recognised") {
  Json json = small_tokenizer();
  Json shorter = json["added_tokens"][0];
  shorter["id"] = 8;
  shorter["content"] = "<en";
  shorter["special"] = false;
  json["added_tokens"].push_back(shorter);
  const Tokenizer tokenizer = load(json);
  const auto encode = [&](std::string_view text, AddedTokens recognised) {
    return tokenizer.encode(text, recognised);
  };
  CHECK(encode("<end><en", AddedTokens::kAll) == std::vector<int32_t>{7, 8});
  CHECK(encode("<end><en", AddedTokens::kNonSpecial) == std::vector<int32_t>{8});
  // The span forbids the longer token but doesn't touch the shorter one.
  const TextSpan span = {4, 8, AddedTokens::kNone};
  CHECK(tokenizer.encode("<end>", AddedTokens::kAll, {&span, 1}) == std::vector<int32_t>{8});
}

TEST_CASE("features that would change ids are refused by name") {
  check_names(refusal_with("/normalizer", {{"type", "NFKC"}}), "NFKC");
  check_names(refusal_with("/normalizer",
                           {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}}}}),
              "normalizer.normalizers[0]");
  check_names(refusal_with("/pre_tokenizer", nullptr), "pre_tokenizer");
  check_names(refusal_with("/pre_tokenizer/type", "Metaspace"), "Metaspace");
  check_names(refusal_with("/pre_tokenizer/type", 1), "pre_tokenizer.type");
  check_names(refusal_with("/pre_tokenizer/add_prefix_space", 1), "add_prefix_space");
  check_names(refusal_with_split("/pattern/Regex", "(?<=a)b"),
              "pre_tokenizer.pretokenizers[0].pattern: {\"Regex\":\"(?<=a)b\"}: \"(?<=a)\"");
  check_names(refusal_with_split("/pattern", 1), "pre_tokenizer.pretokenizers[0].pattern");
  check_names(refusal_with_split("/pattern", Json{{"String", ""}}), "empty pattern");
  check_names(refusal_with_split("/behavior", "Mixed"), "pretokenizers[0].behavior: \"Mixed\"");
  check_names(refusal_with_split("/invert", 0), "pretokenizers[0].invert");
  check_names(refusal_with("/post_processor", {{"type", "RobertaProcessing"}}),
              "RobertaProcessing");
  check_names(refusal_with("/decoder", nullptr), "decoder");
  check_names(refusal_with("/decoder", {{"type", "Metaspace"}}), "decoder");
  check_names(refusal_with("/model", nullptr), "model");
  check_names(refusal_with("/model/type", "Unigram"), "model.type");
  check_names(refusal_with("/model/dropout", 0.1), "model.dropout");
  check_names(refusal_with("/model/byte_fallback", true), "model.byte_fallback");
  check_names(refusal_with("/model/ignore_merges", "no"), "model.ignore_merges");
  check_names(refusal_with("/model/end_of_word_suffix", "</w>"), "model.end_of_word_suffix");
  check_names(refusal_with("/model/unk_token", "<unk>"), "model.unk_token");
}

TEST_CASE("post-processors that make no sense") {
  const Json text = Json::parse(R"({"Sequence": {"id": "A", "type_id": 0}})");
  const Json begin = Json::parse(R"({"SpecialToken": {"id": "<end>", "type_id": 0}})");
  const Json tokens = Json::parse(R"({"<end>": {"id": "<end>", "ids": [7], "tokens": ["<end>"]}})");
  const auto refusal_of = [&](const Json& single, const Json& special_tokens) {
    return refusal_with(
        "/post_processor",
        {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", special_tokens}});
  };
  CHECK(refusal_of({begin, text}, tokens) == "loaded");
  check_names(refusal_of(nullptr, tokens), "post_processor.single");
  check_names(refusal_of({begin}, tokens), "post_processor.single");
  check_names(refusal_of({text, text}, tokens), "post_processor.single[1]");
  check_names(refusal_of({begin, 1}, tokens), "post_processor.single[1]");
  check_names(refusal_of({begin, text}, Json::object()), "special_tokens[\"<end>\"]");
  check_names(refusal_of({begin, text}, {{"<end>", {{"ids", {-1}}}}}), "ids: expected an id");
}

TEST_CASE("a post-processor's tokens go around a prompt, not around a part of one") {
  Json json = small_tokenizer();
  json["post_processor"] = Json::parse(R"({"type": "Sequence", "processors": [
    {"type": "ByteLevel"},
    {"type": "TemplateProcessing",
     "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "<end>", "type_id": 0}}],
     "special_tokens": {"<end>": {"ids": [7]}, "x": {"ids": [4, 0]}}}]})");
  const Tokenizer tokenizer = load(json);
  CHECK(tokenizer.encode_prompt("ab") == std::vector<int32_t>{4, 0, 2, 7});
  CHECK(tokenizer.encode_prompt("", AddedTokens::kNone) == std::vector<int32_t>{4, 0, 7});
  CHECK(tokenizer.encode("ab") == std::vector<int32_t>{2});
}

TEST_CASE("ignore_merges, an unknown token, no normalizer") {
  Json json = small_tokenizer();
  json["model"]["merges"] = Json::array();
  CHECK(load(json).encode("ab") == std::vector<int32_t>{0, 1});
  json["model"]["ignore_merges"] = true;
  CHECK(load(json).encode("ab") == std::vector<int32_t>{2});

  json = small_tokenizer();
  CHECK(load(json).encode("xa") == std::vector<int32_t>{0});
  json["model"]["unk_token"] = "b";
  CHECK(load(json).encode("xa") == std::vector<int32_t>{1, 0});
  json["model"]["fuse_unk"] = true;
  check_names(refusal(json.dump()), "model.fuse_unk");

  json = small_tokenizer();
  json["model"]["vocab"]["\u00c3"] = 5;  // spellings of the bytes C3 A9 and 65 CC 81
  json["model"]["vocab"]["\u00a9"] = 6;
  json["model"]["vocab"]["e"] = 8;
  CHECK(load(json).encode("e\u0301") == std::vector<int32_t>{5, 6});
  json["normalizer"] = nullptr;
  CHECK(load(json).encode("e\u0301") == std::vector<int32_t>{8});
}

}  // namespace llm
