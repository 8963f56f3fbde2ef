// The models that are compiled in: read by the same readers as a folder on disk, byte for byte.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/builtin_files.h"
#include "base/error.h"
#include "base/files.h"
#include "engine/engine.h"
#include "engine/session.h"
#include "golden_file.h"
#include "io/generation_config.h"
#include "io/model_dir.h"
#include "io/safetensors.h"
#include "model/model_config.h"
#include "test_data.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace llm {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;
using Json = nlohmann::ordered_json;  // tools keep their keys in order

const std::vector<std::string> kModels = {"tiny", "tiny-draft"};

TEST_CASE("built-in files are the repository's files") {
  for (const std::string& model : kModels) {
    CAPTURE(model);
    const fs::path dir = resolve_model_dir(model);
    CHECK(is_folder(dir));
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path("models") / model)) {
      const fs::path name = entry.path().filename();
      if (name == "README.md") continue;
      CAPTURE(name.string());
      REQUIRE(is_listed(dir / name));
      CHECK(read_file(dir / name, 1 << 30) == file_text(entry.path()));
    }
  }
}

TEST_CASE("built-in models have the shape and the size that they promise") {
  struct Limit {
    const char* name;
    int64_t bytes;
  };
  for (const Limit& limit : {Limit{"tiny", 8'400'000}, Limit{"tiny-draft", 1'500'000}}) {
    CAPTURE(limit.name);
    const fs::path dir = resolve_model_dir(limit.name);
    const ModelConfig config = load_model_config(dir);
    CHECK(config.head_dim == 128);
    CHECK(config.hidden_size % 128 == 0);
    CHECK(config.intermediate_size % 128 == 0);
    CHECK(config.vocab_size % 128 == 0);
    CHECK(config.num_attention_heads == 2 * config.num_key_value_heads);
    CHECK(config.tie_word_embeddings);
    CHECK(config.max_position_embeddings == 8192);
    CHECK(Checkpoint::open(dir).total_bytes() <= limit.bytes);
    CHECK(load_generation_config(dir).eos_token_ids.size() == 2);
    CHECK(load_chat_template(dir, false).has_value());
  }
  const auto vocabulary = [](const char* name) {
    return read_file(resolve_model_dir(name) / "tokenizer.json", 1 << 30);
  };
  CHECK(vocabulary("tiny") == vocabulary("tiny-draft"));
}

/// The answer's ids by arg-max; `limit` as the golden was made with.
Ids answer(Engine& engine, const ModelFiles& files, Ids prompt, int64_t limit) {
  Request request;
  request.prompt_ids = std::move(prompt);
  request.stop_ids = files.stop_ids;
  request.max_tokens = limit;
  request.num_ids = files.num_ids();
  const auto sequence = engine.add(std::move(request));
  while (engine.has_work()) engine.step();
  return Ids(sequence->output_ids().begin(), sequence->output_ids().end());
}

TEST_CASE("built-in models answer as the reference does, id for id") {
  constexpr int64_t kContext = 2048, kLimit = 80;
  const Log quiet(Verbosity::kQuiet);
  for (const std::string& name : kModels) {
    const ModelChoice choice{.model = name, .config = {}, .random_weights = {}, .tokenizer = {}};
    DeviceChoice device;
    device.act = ActDType::kF32;
    const ModelFiles files = open_model(choice, device.device, quiet);
    LoadedModel model(files, choice, device, 0, kContext, quiet);
    Engine engine(model.decoder(), {.scheduler = {.context = kContext},
                                    .num_cache_tokens = kContext,
                                    .kv_dtype = DType::kF32});
    const ChatTemplate chat_template = *load_chat_template(files.tokenizer_dir, false);
    GoldenFile golden("tiny_answers.jsonl (" + name + ")");
    std::ifstream lines("tests/goldens/tiny_answers.jsonl");
    REQUIRE(lines);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      const Json row = Json::parse(line);
      if (row["model"] != name) continue;
      ChatInput input;
      input.messages = parse_json_value(row["messages"].dump(), "messages");
      if (!row["tools"].empty()) input.tools = parse_json_value(row["tools"].dump(), "tools");
      input.enable_thinking = row["think"].get<bool>();
      input.special_tokens = load_special_tokens(files.tokenizer_dir);
      const RenderedPrompt prompt = chat_template.render(input);
      const Ids ids = files.tokenizer->encode(prompt.text, AddedTokens::kAll, prompt.spans);
      const Ids answered = answer(engine, files, ids, kLimit);
      golden.line(number, ids == row["prompt_ids"].get<Ids>() && answered == row["ids"].get<Ids>(),
                  fmt::format("answered {}", files.tokenizer->decode(answered)));
    }
  }
}

TEST_CASE("training, held-out, calibration and evaluation texts share nothing") {
  if (std::system("command -v python3 >/dev/null") != 0) {
    skip_test("training-text-split", "python3", true);
    return;
  }
  CHECK(std::system("python3 scripts/tiny/check_split.py >/dev/null") == 0);
}

TEST_CASE("what isn't compiled in isn't there") {
  const fs::path dir = resolve_model_dir("tiny");
  CHECK_FALSE(is_listed(dir / "no.json"));
  CHECK_FALSE(is_listed(dir / "sub" / "config.json"));
  CHECK_FALSE(is_folder("builtin:nothing"));
  CHECK_FALSE(builtin_folder("").has_value());
  CHECK_THROWS_AS(read_file(dir / "no.json", 100), Error);
  CHECK_THROWS_AS(read_file(dir / "config.json", 10), Error);
}

}  // namespace
}  // namespace llm
