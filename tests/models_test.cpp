// models.txt, names of models, and `llm models`.
#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <set>

#include "base/embedded.h"
#include "base/error.h"
#include "checkpoint_maker.h"
#include "io/hub_cache.h"
#include "io/json.h"
#include "io/model_dir.h"
#include "io/model_list.h"
#include "io/safetensors.h"
#include "model/model_config.h"
#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

LlmResult call_in(const fs::path& cache, std::vector<std::string> args) {
  LlmCall call;
  call.args = std::move(args);
  call.environment = {"HF_HUB_CACHE=" + fs::absolute(cache).string()};
  return run_llm(call);
}

std::string list_refusal(const std::string& text) {
  try {
    parse_model_list(text, "list");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kRefused);
    return error.what();
  }
  return "";
}

/// A cache that has Owner/Name's weights, as a download leaves it.
fs::path install(const fs::path& cache, const std::string& owner, const std::string& name) {
  const fs::path folder = cache / ("models--" + owner + "--" + name);
  write_random2(folder / "snapshots" / "abc", {.vocab_size = 320});
  fs::create_directories(folder / "refs");
  write_text(folder / "refs" / "main", "abc");
  return folder / "snapshots" / "abc";
}

}  // namespace

TEST_CASE("models.txt: what is compiled in is the file, and every line is sound") {
  CHECK(embedded_file("models.txt").value() == read_text_file("models.txt", 1 << 20));
  CHECK(embedded_file("scripts/download_model.sh").value() ==
        read_text_file("scripts/download_model.sh", 1 << 20));
  CHECK(!embedded_file("nothing"));
  std::set<std::string> ids;
  for (const ListedModel& model : model_list()) {
    CAPTURE(model.alias);
    CHECK(find_listed_model(model.alias) == &model);
    if (model.hub_id.empty()) {  // built in
      const ModelConfig config = load_model_config(resolve_model_dir(model.alias));
      CHECK(config.num_parameters() == model.parameters);
      CHECK(Checkpoint::open(resolve_model_dir(model.alias)).total_bytes() == model.bytes);
      continue;
    }
    CHECK(ids.insert(model.hub_id).second);
    CHECK(find_listed_model(model.hub_id) == &model);
    // Where we know a config of the name, the parameters must be its own.
    if (const auto config = named_model_config(model.alias)) {
      CHECK(config->num_parameters() == model.parameters);
      CHECK(can_load(model.model_type, model.quant_method));
    }
    const bool plain = model.quant_method.empty();
    if (model.bytes && plain) CHECK(*model.bytes >= 2 * model.parameters);
    if (model.bytes && !plain) CHECK(*model.bytes < 2 * model.parameters);
  }
  CHECK(find_listed_model("qwen3-0.6b") != nullptr);
  CHECK(find_listed_model("") == nullptr);
  CHECK(find_listed_model("QWEN3-0.6B") == nullptr);
}

TEST_CASE("models.txt: lines that can't be right are refused with their place") {
  const std::vector<ListedModel> models = parse_model_list(
      "# text\n\nbuilt-in - 12 - qwen3 bf16\na o/n 5 7 llama awq, 4 bits, x y\n", "l");
  REQUIRE(models.size() == 2);
  CHECK(models[0].hub_id.empty());
  CHECK(!models[0].bytes);
  CHECK(models[0].quant_method.empty());
  CHECK(models[0].remarks.empty());
  CHECK(models[1].bytes == 7);
  CHECK(models[1].quant_method == "awq");
  CHECK(models[1].remarks == "4 bits, x y");
  CHECK(contains(list_refusal("a o/n 5 7 llama\n"), "list:1"));
  CHECK(contains(list_refusal("\na o/n/x 5 7 llama bf16\n"), "list:2"));
  CHECK(contains(list_refusal("a/b o/n 5 7 llama bf16"), "slash"));
  for (const char* number : {"-5", "0", "5x", "1e9", "99999999999999999999"}) {
    CHECK(contains(list_refusal("a o/n " + std::string(number) + " 7 llama bf16"), "numbers"));
    CHECK(contains(list_refusal("a o/n 5 " + std::string(number) + " llama bf16"), "numbers"));
  }
  CHECK(contains(list_refusal("a o/n 5 7 llama bf16\na o/m 5 7 llama bf16"), "twice"));
}

TEST_CASE("models: near misses are recognised, far ones aren't") {
  CHECK(similar_alias("qwen3-06b") == "qwen3-0.6b");
  CHECK(similar_alias("Qwen3-0.6B") == "qwen3-0.6b");
  CHECK(similar_alias("Qwen/Qwen3-1.7b") == "qwen3-1.7b");
  CHECK(similar_alias("smollm-135m") == "smollm2-135m");
  CHECK(!similar_alias("mistral"));
  CHECK(!similar_alias(""));
  CHECK(!similar_alias(std::string(100'000, 'q')));
}

TEST_CASE("models: sizes for people") {
  CHECK(human_bytes(0) == "0 bytes");
  CHECK(human_bytes(999) == "999 bytes");
  CHECK(human_bytes(1503264768) == "1.50 GB");
  CHECK(human_bytes(999'600'000) == "1.00 GB");
  CHECK(human_bytes(65.5e9) == "65.5 GB");
  CHECK(human_bytes(988e6) == "988 MB");
}

TEST_CASE("models: an alias that isn't here says what to type") {
  const fs::path cache = fresh_test_dir("models-absent");
  for (const char* command : {"run", "tokenize"}) {
    const LlmResult r = call_in(cache, {command, "-m", "qwen3-0.6b", "x"});
    CHECK(r.exit_code == 2);
    CHECK(r.out.empty());
    CHECK_MESSAGE(contains(r.err, "`llm get qwen3-0.6b` downloads it (1.50 GB)"), r.err);
  }
  const LlmResult by_id = call_in(cache, {"run", "-m", "Some/Model", "x"});
  CHECK(by_id.exit_code == 2);
  CHECK_MESSAGE(contains(by_id.err, "`llm get Some/Model`"), by_id.err);
  const LlmResult near = call_in(cache, {"run", "-m", "qwen3-06b", "x"});
  CHECK(near.exit_code == 2);
  CHECK_MESSAGE(contains(near.err, "did you mean qwen3-0.6b?"), near.err);
  // A download that hasn't ended yet.
  fs::create_directories(cache / "models--Qwen--Qwen3-0.6B" / "blobs");
  const LlmResult part = call_in(cache, {"run", "-m", "qwen3-0.6b", "x"});
  CHECK(part.exit_code == 2);
  CHECK_MESSAGE(contains(part.err, "not complete"), part.err);
}

TEST_CASE("models: an alias finds the snapshot in the cache, a folder comes first") {
  const fs::path cache = fresh_test_dir("models-installed");
  install(cache, "HuggingFaceTB", "SmolLM2-135M-Instruct");
  const std::vector<std::string> args = {"run", "-m", "smollm2-135m", "--token-ids", "1 2",
                                         "-n",  "1",  "--greedy"};
  const LlmResult r = call_in(cache, args);
  CHECK_MESSAGE(r.exit_code == 0, r.err);
}

TEST_CASE("models: the list knows what is installed and complete") {
  const fs::path cache = fs::absolute(fresh_test_dir("models-list"));
  const fs::path listed = install(cache, "HuggingFaceTB", "SmolLM2-360M-Instruct");
  const fs::path other = install(cache, "Some", "Model");
  const fs::path broken = install(cache, "Some", "Broken");
  fs::remove(broken / "model.safetensors");
  const fs::path strange = install(cache, "Some", "Strange");
  write_text(strange / "config.json", "{\"model_type\": \"other\"}");
  write_text(cache / "models--Some--NoFolder", "x");
  fs::create_directories(cache / "models--x");

  const LlmResult table = call_in(cache, {"models"});
  CHECK(table.exit_code == 0);
  CHECK(contains(table.out, "qwen3-0.6b "));
  CHECK(contains(table.out, "smollm2-360m is in " + listed.string()));
  CHECK(contains(table.out, "Some/Model is in " + other.string()));
  CHECK(!contains(table.out, "Some/Broken"));

  const LlmResult r = call_in(cache, {"models", "--json"});
  const JsonValue json = parse_json(r.out, "models");
  const size_t count = json.find("models")->array.size();
  CHECK(count == model_list().size() + 2);
  CHECK(json.find("cache")->string == cache.string());
  CHECK(json.find("disk_free")->integer > 0);
  for (const JsonValue& model : json.find("models")->array) {
    const std::string& alias = model.find("alias")->string;
    CAPTURE(alias);
    const bool in_cache =
        alias == "smollm2-360m" || alias == "Some/Model" || alias == "Some/Strange";
    const bool built_in = model.find("hub_id")->is_null();
    CHECK(model.find("installed")->boolean == (in_cache || built_in));
    CHECK(model.find("path")->is_string() == in_cache);
    if (alias == "qwen3-8b-awq") CHECK(model.find("loadable")->boolean);
    if (alias == "qwen3-8b") CHECK(model.find("loadable")->boolean);
    if (alias == "qwen3-30b-a3b") CHECK(model.find("loadable")->boolean);
    if (alias == "Some/Strange") CHECK(!model.find("loadable")->boolean);
    if (alias == "qwen3-0.6b-fp8") CHECK(model.find("bytes")->is_null());
  }
}

TEST_CASE("models: a filter looks at aliases and hub ids in any case") {
  const fs::path cache = fresh_test_dir("models-filter");
  const LlmResult r = call_in(cache, {"models", "SMOLLM2-1"});
  CHECK(r.exit_code == 0);
  CHECK(contains(r.out, "smollm2-135m"));
  CHECK(contains(r.out, "smollm2-1.7b"));
  CHECK(!contains(r.out, "smollm2-360m"));
  CHECK(contains(call_in(cache, {"models", "huggingfacetb"}).out, "smollm2-360m"));
  const LlmResult none = call_in(cache, {"models", "qwen3-06b"});
  CHECK(none.exit_code == 2);
  CHECK(contains(none.err, "did you mean qwen3-0.6b?"));
  CHECK(contains(call_in(cache, {"models", "nothing-like-it", "--json"}).out, "\"models\":[]"));
}

}  // namespace llm
