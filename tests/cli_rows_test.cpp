// Reports of users (tests/ROWS.md) that no other file holds, tried on the whole program.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "checkpoint_maker.h"
#include "io/json.h"
#include "io/npy.h"
#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace {

namespace fs = std::filesystem;
using Args = std::vector<std::string>;

constexpr const char* kTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
    "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Args with(Args args, const Args& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

/// A rigged model over Qwen3's tokenizer, with a template that has the thinking switch.
fs::path chat_script(const char* name, const std::vector<int32_t>& chain, int32_t eos) {
  const fs::path dir = fresh_test_dir(name) / "model";
  ScriptOptions options;
  options.folder.tokenizer_json = qwen3_tokenizer_json();
  options.folder.generation_eos = {eos};
  write_script(dir, chain, options);
  write_text(dir / "chat_template.jinja", kTemplate);
  return dir;
}

Random2Options small_random2(FolderOptions folder = {}) {
  Random2Options options;
  options.vocab_size = 320;
  options.folder = std::move(folder);
  return options;
}

std::string ids_text(int count) {
  std::string ids;
  for (int i = 0; i < count; ++i) ids += std::to_string(i * 7 % 320) + " ";
  return ids;
}

}  // namespace

TEST_CASE("T8: half a character on stdin is one U+FFFD and one warning") {
  LLM_SKIP_WITHOUT_DATA("T8 on the command line");
  const fs::path dir = fresh_test_dir("rows-tokenizer");
  fs::create_symlink(fs::absolute(qwen3_tokenizer_json()), dir / "tokenizer.json");
  const LlmResult r = run_llm({"tokenize", "-m", dir.string()}, "\xe6\xad");
  CHECK(r.exit_code == 0);
  CHECK(r.out == "5691\n");
  CHECK(count_of(r.err, "warning") == 1);
}

TEST_CASE("C1: with thinking off no tag is printed") {
  LLM_SKIP_WITHOUT_DATA("C1 on the command line");
  const fs::path dir = chat_script("rows-think-off", {271, 17453, 151645}, 151645);
  const LlmResult r =
      run_llm({"run", "-m", dir.string(), "--think", "off", "--print-ids", "--greedy", "hi"});
  CHECK(r.exit_code == 0);
  CHECK(r.out == "Done");
  CHECK(contains(r.err, "151667 271 151668 271"));
}

TEST_CASE("C14: with and without template the prompt counts differ, and are said") {
  LLM_SKIP_WITHOUT_DATA("C14 on the command line");
  const fs::path dir = chat_script("rows-modes", {198, 17453, 151645}, 151645);
  const Args run = {"run", "-m", dir.string(), "-n", "1", "--greedy"};
  CHECK(contains(run_llm(with(run, {"hi"})).err, "chat template, 9 prompt tokens"));
  CHECK(contains(run_llm(with(run, {"hi", "--raw"})).err, "raw prompt, 1 prompt token"));
}

TEST_CASE("S2: top-k 0 draws from all, top-k 1 is greedy") {
  const fs::path dir = fresh_test_dir("rows-top-k") / "model";
  write_random2(dir, small_random2());
  const auto ids = [&](const Args& more) {
    const LlmResult r = run_llm(
        with({"run", "-m", dir.string(), "--token-ids", "5 6 7", "-n", "4", "--ignore-eos", "-q"},
             with(more, {"--json"})));
    REQUIRE_MESSAGE(r.exit_code == 0, r.err);
    std::string text;
    const JsonValue answer = parse_json(r.out, "run --json");
    for (const JsonValue& id : answer.find("ids")->array) {
      text += std::to_string(id.integer) + " ";
    }
    return text;
  };
  std::set<std::string> drawn;
  for (int seed = 0; seed < 20; ++seed) {
    drawn.insert(ids({"--temp", "1", "--top-k", "0", "--seed", std::to_string(seed)}));
  }
  CHECK(drawn.size() > 1);
  CHECK(ids({"--temp", "1", "--top-k", "1", "--seed", "3"}) == ids({"--greedy"}));
}

TEST_CASE("S11: weights that overflow end in an error, not in text") {
  const ModelConfig config = random2_config(small_random2());
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 3e38f}) {
    CAPTURE(bad);
    const fs::path dir = fresh_test_dir("rows-overflow") / "model";
    write_checkpoint(dir, config, [&](const std::string& name, std::span<float> values, int64_t) {
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = name.ends_with("norm.weight") ? 1.0f : static_cast<float>(i * 37 % 101) / 500;
      }
      if (!contains(name, "layers.1.mlp.down_proj")) return;
      // One NaN, or a whole matrix of values near the largest.
      for (float& value : bad > 0 ? values : values.first(1)) value = bad;
    });
    const LlmResult r = run_llm({"run", "-m", dir.string(), "--token-ids", "5 6 7", "-n", "8"});
    CHECK(r.exit_code != 0);
    CHECK(r.exit_code < 128);
    CHECK(r.out.empty());
    CHECK(contains(r.err, "logit"));
  }
}

TEST_CASE("S13: recommended sampling is used and shown, greedy thinking is warned of") {
  LLM_SKIP_WITHOUT_DATA("S13 on the command line");
  const fs::path dir = chat_script("rows-sampling", {198, 17453, 151645}, 151645);
  write_text(dir / "generation_config.json",
             R"({"do_sample": true, "temperature": 0.6, "top_p": 0.95, "top_k": 20,
                 "eos_token_id": 151645})");
  const Args run = {"run", "-m", dir.string(), "-n", "1", "hi"};
  const LlmResult verbose = run_llm(with(run, {"--verbose"}));
  CHECK(verbose.exit_code == 0);
  for (const char* part : {"0.6", "0.95", "20", "generation_config.json"}) {
    CHECK(contains(verbose.err, part));
  }
  CHECK(count_of(run_llm(with(run, {"--temp", "0", "--think", "on"})).err, "warning") == 1);
  CHECK(count_of(run_llm(with(run, {"--temp", "0"})).err, "warning") == 0);
}

TEST_CASE("L12: the trace of RANDOM2 shows q 128 and k 64") {
  const fs::path dir = fresh_test_dir("rows-shapes") / "model";
  write_random2(dir, small_random2());
  const LlmResult r =
      run_llm({"run", "-m", dir.string(), "--token-ids", "1 2 3", "--trace-shapes"});
  CHECK(r.exit_code == 0);
  std::string squeezed;
  for (const char c : r.err) {
    if (c != ' ' || !squeezed.ends_with(' ')) squeezed += c;
  }
  CHECK_MESSAGE(contains(squeezed, "q_proj [1, 3, 64] → [1, 3, 128]"), squeezed);
  CHECK(contains(squeezed, "k_proj [1, 3, 64] → [1, 3, 64]"));
}

TEST_CASE("L13: both spellings of a config give the same logits at position 500") {
  const auto logits = [&](bool old_style) {
    FolderOptions folder;
    folder.old_style_config = old_style;
    const fs::path dir = fresh_test_dir("rows-spelling");
    write_random2(dir / "model", small_random2(folder));
    const std::string file = (dir / "logits.npy").string();
    const LlmResult r = run_llm({"run", "-q", "-m", (dir / "model").string(), "--token-ids",
                                 ids_text(501), "-n", "0", "--logits-out", file});
    REQUIRE_MESSAGE(r.exit_code == 0, r.err);
    const NpyMatrix matrix = read_npy(file);
    REQUIRE(matrix.rows == 501);
    return std::vector<float>(matrix.values.end() - matrix.cols, matrix.values.end());
  };
  CHECK(logits(false) == logits(true));
}

}  // namespace llm
