#include "io/model_dir.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <optional>

#include "base/error.h"
#include "checkpoint_maker.h"
#include "io/generation_config.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "refusal.h"
#include "test_data.h"

using namespace llm;
namespace fs = std::filesystem;

namespace {

/// Sets environment variables for the length of a scope; no value removes one.
class ScopedEnvironment {
 public:
  explicit ScopedEnvironment(const std::map<std::string, std::optional<std::string>>& values) {
    for (const auto& [name, value] : values) {
      const char* old = std::getenv(name.c_str());
      old_[name] = old == nullptr ? std::nullopt : std::optional<std::string>(old);
      set(name, value);
    }
  }
  ~ScopedEnvironment() {
    for (const auto& [name, value] : old_) set(name, value);
  }

 private:
  static void set(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      setenv(name.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name.c_str());
    }
  }
  std::map<std::string, std::optional<std::string>> old_;
};

fs::path two_shards(const std::string& name) {
  const fs::path dir = fresh_test_dir(name);
  Random2Options options{.vocab_size = 320};
  options.folder.num_shards = 2;
  write_random2(dir, options);
  return dir;
}

std::string open_refusal(const fs::path& dir) {
  return refusal_of([&] { Checkpoint::open(dir); });
}

void write_index(const fs::path& dir, const std::string& map) {
  write_text(dir / "model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
}

}  // namespace

TEST_CASE("checkpoint: a single file, and shards, give the same tensors") {
  const fs::path single = fresh_test_dir("checkpoint-single");
  write_random2(single, {.vocab_size = 320});
  const Checkpoint a = Checkpoint::open(single);
  const Checkpoint b = Checkpoint::open(two_shards("checkpoint-shards"));
  CHECK(a.files().size() == 1);
  CHECK(b.files().size() == 2);
  CHECK(a.names() == b.names());
  CHECK(a.total_bytes() == b.total_bytes());
  for (const std::string& name : a.names()) {
    const ConstTensor x = a.tensor(name);
    const ConstTensor y = b.tensor(name);
    CHECK(x.shape == y.shape);
    CHECK(std::equal(x.data, x.data + x.bytes(), y.data));
  }
  check_contains(refusal_of([&] { a.tensor("nothing"); }), "no tensor \"nothing\"");
}

TEST_CASE("checkpoint: the shared sharded fixture opens") {
  LLM_SKIP_WITHOUT_DATA("qwen3-bf16-sharded3");
  const Checkpoint c = Checkpoint::open(shared_data() / "fixtures" / "qwen3-bf16-sharded3");
  CHECK(c.files().size() == 4);
  CHECK(c.contains("model.layers.2.mlp.down_proj.weight"));
}

TEST_CASE("checkpoint: a missing shard is named (L7)") {
  const fs::path dir = two_shards("checkpoint-missing");
  fs::remove(dir / "model-00002-of-00002.safetensors");
  check_contains(open_refusal(dir), "model-00002-of-00002.safetensors");
  check_contains(open_refusal(dir), "incomplete download?");
  fs::create_symlink("../blobs/gone", dir / "model-00002-of-00002.safetensors");
  check_contains(open_refusal(dir), "the link leads to a file that isn't there");
}

TEST_CASE("checkpoint: an index that can't be right is refused") {
  const fs::path dir = two_shards("checkpoint-index");
  const std::string shard1 = "model-00001-of-00002.safetensors";
  const std::string shard2 = "model-00002-of-00002.safetensors";
  const std::string embed = "model.embed_tokens.weight";  // in shard 1
  for (const std::string& bad : std::vector<std::string>{"../" + shard1, "/etc/passwd", "..", ".",
                                                         "", "a/b", "a\\\\b", "a\\u0000b"}) {
    INFO(bad);
    write_index(dir, "\"" + embed + "\":\"" + bad + "\"");
    check_contains(open_refusal(dir), "not a plain file name");
  }
  write_index(dir, "\"" + embed + "\":\"" + shard2 + "\"");
  check_contains(open_refusal(dir), embed + "\" is not in " + shard2);
  write_index(dir, "\"nothing\":\"" + shard1 + "\"");
  check_contains(open_refusal(dir), "nothing");
  write_index(dir, "\"" + embed + "\":3");
  check_contains(open_refusal(dir), "expected a string");
  write_index(dir, "\"a\":\"" + shard1 + "\",\"a\":\"" + shard1 + "\"");
  check_contains(open_refusal(dir), "twice");
  write_index(dir, "");
  check_contains(open_refusal(dir), "lists no tensor");
  write_text(dir / "model.safetensors.index.json", "[]");
  check_contains(open_refusal(dir), "weight_map");
  fs::copy_file(dir / shard1, dir / "copy.safetensors");
  write_index(dir,
              "\"" + embed + "\":\"" + shard1 + "\",\"model.norm.weight\":\"copy.safetensors\"");
  check_contains(open_refusal(dir), "is in " + shard1 + " and in copy.safetensors");
}

TEST_CASE("checkpoint: a folder without weights says what is expected") {
  const fs::path dir = fresh_test_dir("checkpoint-empty");
  check_contains(open_refusal(dir), "expected model.safetensors");
  write_text(dir / "pytorch_model.bin", "x");
  check_contains(open_refusal(dir), "pytorch_model.bin");
  check_contains(open_refusal(dir / "nowhere"), "no such folder");
  check_contains(open_refusal(dir / "pytorch_model.bin"), "not a folder");
  fs::create_directory(dir / "model.safetensors");
  check_contains(open_refusal(dir), "is a folder");
}

TEST_CASE("model folder: a path, or a hub id in the cache") {
  const fs::path root = fresh_test_dir("hub");
  const fs::path repo = root / "hub" / "models--Owner--Some-Model.1";
  const fs::path snapshot = repo / "snapshots" / "0123abcd";
  fs::create_directories(snapshot);
  fs::create_directories(repo / "refs");
  CHECK(resolve_model_dir(root.string()) == root);

  const std::optional<std::string> unset;
  const std::map<std::string, std::optional<std::string>> ways[] = {
      {{"HF_HUB_CACHE", (root / "hub").string()}, {"HF_HOME", "/nowhere"}},
      {{"HF_HUB_CACHE", unset}, {"HF_HOME", root.string()}},
  };
  for (const auto& way : ways) {
    const ScopedEnvironment environment(way);
    fs::remove(repo / "refs" / "main");
    CHECK(resolve_model_dir("Owner/Some-Model.1") == snapshot);  // the only one
    write_text(repo / "refs" / "main", "0123abcd\n");
    CHECK(resolve_model_dir("Owner/Some-Model.1") == snapshot);
    write_text(repo / "refs" / "main", "ffff");
    check_contains(refusal_of([] { resolve_model_dir("Owner/Some-Model.1"); }), "no snapshot ffff");
    write_text(repo / "refs" / "main", "../../..");
    check_contains(refusal_of([] { resolve_model_dir("Owner/Some-Model.1"); }), "revision");
    check_contains(refusal_of([] { resolve_model_dir("Owner/Other"); }), "models--Owner--Other");
  }
  {
    fs::create_directories(root / "home" / ".cache" / "huggingface");
    fs::create_directory_symlink(fs::absolute(root / "hub"),
                                 root / "home" / ".cache" / "huggingface" / "hub");
    write_text(repo / "refs" / "main", "0123abcd");
    const ScopedEnvironment environment({{"HF_HUB_CACHE", unset},
                                         {"HF_HOME", unset},
                                         {"XDG_CACHE_HOME", unset},
                                         {"HOME", (root / "home").string()}});
    CHECK(fs::equivalent(resolve_model_dir("Owner/Some-Model.1"), snapshot));
  }
  for (const std::string bad :
       {"no-such-model", "a/b/c", "../x", "Owner/", "/nowhere/x", "o/..", "ow ner/x"}) {
    INFO(bad);
    check_contains(refusal_of([&] { resolve_model_dir(bad); }), "no model \"" + bad + "\"");
  }
  check_contains(refusal_of([] { resolve_model_dir(""); }), "empty");
  const fs::path file = root / "file.safetensors";
  write_text(file, "x");
  check_contains(refusal_of([&] { resolve_model_dir(file.string()); }), "not a folder");
}

TEST_CASE("generation config: read, absent, and refused") {
  const fs::path dir = fresh_test_dir("generation-config");
  CHECK(load_generation_config(dir).eos_token_ids.empty());
  write_text(dir / "generation_config.json",
             "{\"eos_token_id\":[151645,151643],\"do_sample\":true,\"temperature\":0.6,"
             "\"top_k\":20,\"top_p\":0.95,\"min_p\":null,\"pad_token_id\":151643}");
  const GenerationConfig g = load_generation_config(dir);
  CHECK(g.eos_token_ids == std::vector<int32_t>{151645, 151643});
  CHECK(g.do_sample);
  CHECK(g.temperature == 0.6f);
  CHECK(g.top_k == 20);
  CHECK(g.top_p == 0.95f);
  CHECK(!g.min_p);
  CHECK(!g.repetition_penalty);
  CHECK(parse_generation_config("{\"eos_token_id\":7}", "g").eos_token_ids ==
        std::vector<int32_t>{7});
  CHECK(g.ignored.empty());
  CHECK(parse_generation_config("{\"num_beams\":4,\"typical_p\":1.0,\"use_cache\":true,"
                                "\"no_repeat_ngram_size\":3,\"bad_words_ids\":null}",
                                "g")
            .ignored == std::vector<std::string>{"num_beams 4", "no_repeat_ngram_size 3"});

  const std::map<std::string, std::string> bad = {
      {"{\"temperature\":\"hot\"}", "\"temperature\" is \"hot\""},
      {"{\"temperature\":-1}", "\"temperature\" is -1"},
      {"{\"top_p\":2}", "\"top_p\" is 2"},
      {"{\"top_k\":1.5}", "\"top_k\" is 1.5"},
      {"{\"do_sample\":1}", "\"do_sample\" is 1"},
      {"{\"eos_token_id\":[1,\"x\"]}", "\"eos_token_id\" is \"x\""},
      {"{\"eos_token_id\":-1}", "\"eos_token_id\" is -1"},
      {"{\"repetition_penalty\":0}", "\"repetition_penalty\" is 0"},
      {"[]", "expected a JSON object"},
      {"{", "not valid JSON"},
      {"{\"a\":1,\"a\":2}", "twice"}};
  for (const auto& item : bad) {
    const std::string& json = item.first;
    const std::string& message = item.second;
    INFO(json);
    check_contains(refusal_of([&] { parse_generation_config(json, "gen.json"); }), message);
    check_contains(refusal_of([&] { parse_generation_config(json, "gen.json"); }), "gen.json");
  }
}

TEST_CASE("generation config: stop ids are the union of both files (D5)") {
  const std::vector<int32_t> generation = {151645, 151643};
  const std::vector<int32_t> config = {151643, 5};
  CHECK(union_of_ids(generation, config) == std::vector<int32_t>{5, 151643, 151645});
  CHECK(union_of_ids({}, config) == std::vector<int32_t>{5, 151643});
  CHECK(union_of_ids({}, {}).empty());
}

TEST_CASE("text files: limits and wrong kinds are refused") {
  const fs::path dir = fresh_test_dir("text-files");
  write_text(dir / "a.txt", "hello");
  CHECK(read_text_file(dir / "a.txt", 5) == "hello");
  check_contains(refusal_of([&] { read_text_file(dir / "a.txt", 4); }), "larger than the 4 bytes");
  write_text(dir / "nul.txt", std::string("a\0b", 3));
  check_contains(refusal_of([&] { read_text_file(dir / "nul.txt", 100); }), "NUL byte at byte 1");
  check_contains(refusal_of([&] { read_text_file(dir, 100); }), "is a folder");
  check_contains(refusal_of([&] { read_text_file(dir / "none", 100); }), "no such file");
  if (geteuid() != 0) {  // root may read everything
    fs::permissions(dir / "a.txt", fs::perms::none);
    check_contains(refusal_of([&] { read_text_file(dir / "a.txt", 100); }), "can't be opened");
  }
}

TEST_CASE("JSON: strict where it matters") {
  const JsonValue v = parse_json("{\"b\":[1,-2,2.5,18446744073709551615],\"a\":{\"x\":null}}", "j");
  CHECK(v.object[0].key == "b");  // order kept
  const std::vector<JsonValue>& b = v.find("b")->array;
  CHECK(b[0].is_integer());
  CHECK(b[1].integer == -2);
  CHECK(!b[2].is_integer());
  CHECK(!b[3].is_integer());  // beyond 63 bits: a number, not an integer
  CHECK(b[3].number == 18446744073709551615.0);
  CHECK(v.find("a")->find("x")->is_null());
  CHECK(v.find("a")->find_set("x") == nullptr);
  check_contains(refusal_of([] { parse_json(std::string(129, '['), "j"); }), "deeper than 128");
  check_contains(refusal_of([] { parse_json("{} x", "j"); }), "not valid JSON");
  check_contains(refusal_of([] { parse_json("\"\xff\"", "j"); }), "not valid JSON");
  check_contains(refusal_of([] { parse_json("NaN", "j"); }), "not valid JSON");
  check_contains(refusal_of([] { parse_json(std::string("1\0", 2), "j"); }), "NUL");
  CHECK(json_quote("a\"\n\xff") == "\"a\\\"\\n\xef\xbf\xbd\"");
  CHECK(printable("a\n\x1b\xff") == "a\\n\\u001b\xef\xbf\xbd");
  CHECK(printable(std::string(120, 'a')) == std::string(120, 'a'));
  CHECK(printable(std::string(119, 'a') + "\xc3\xa9") == std::string(119, 'a') + "...");
}

TEST_CASE("json files: an empty file, a pointer and a web page are named for what they are") {
  const fs::path path = fresh_test_dir("json-downloads") / "config.json";
  const auto refused_with = [&](const std::string& text) {
    std::ofstream(path) << text;
    return refusal_of([&] { read_json_file(path); });
  };
  check_contains(refused_with(""), "empty");
  check_contains(refused_with("version https://git-lfs.github.com/spec/v1\n"), "Git LFS pointer");
  check_contains(refused_with("<!DOCTYPE html>"), "HTML");
}
