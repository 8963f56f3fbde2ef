// One line of `llm tokenize --jsonl`; its answer must be JSON again.
#include "cli/tokenize_jsonl.h"
#include "fuzz_input.h"
#include "io/json.h"
#include "text/tokenizer.h"

namespace llm {
namespace {

constexpr std::string_view kTokenizer = R"({
  "added_tokens": [
    {"id": 7, "content": "<|im_end|>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true},
    {"id": 8, "content": "<think>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": false}],
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "unk_token": "?", "vocab": {"a": 0, "b": 1, "ab": 2, "\u0120": 3,
            "\u0120ab": 4, "?": 5, "\u00e4": 6}, "merges": ["a b", "\u0120 ab"]}})";

Tokenizer make_tokenizer() {
  const InputFile file(reinterpret_cast<const uint8_t*>(kTokenizer.data()), kTokenizer.size());
  return Tokenizer::load(file.path());
}

}  // namespace
}  // namespace llm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llm;
  static const Tokenizer tokenizer = make_tokenizer();
  std::string answer;
  may_refuse([&] { answer = tokenize_jsonl_line(text_of(data, size), tokenizer); });
  // Outside of may_refuse: an answer that isn't JSON is ours to blame, not the input's.
  if (!answer.empty()) parse_json(answer, "answer");
  return 0;
}
