// `llm run`: prompts, streaming, stops, JSON, logits, traces.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "checkpoint_maker.h"
#include "io/json.h"
#include "io/npy.h"
#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace {

using Args = std::vector<std::string>;

std::string fixture(const char* name) { return (shared_data() / "fixtures" / name).string(); }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Args with(Args args, const Args& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::vector<int64_t> integers(const JsonValue* array) {
  std::vector<int64_t> values;
  REQUIRE(array != nullptr);
  for (const JsonValue& item : array->array) values.push_back(item.integer);
  return values;
}

/// `run --json` as a tree; the call must succeed.
JsonValue run_json(Args args, const std::string& input = "") {
  args.insert(args.begin() + 1, "--json");
  const LlmResult r = run_llm(args, input);
  REQUIRE_MESSAGE(r.exit_code == 0, r.err);
  return parse_json(r.out, "run --json");
}

std::string prompt_ids(Args args, const std::string& input = "") {
  args.insert(args.begin() + 1, {"--print-ids", "-n", "0"});
  const JsonValue result = run_json(args, input);
  std::string ids;
  for (const int64_t id : integers(result.find("prompt_ids"))) {
    ids += (ids.empty() ? "" : " ") + std::to_string(id);
  }
  return ids;
}

std::string joined(const JsonValue& array) {
  std::string text;
  for (const JsonValue& item : array.array) text += std::to_string(item.integer) + " ";
  return text;
}

/// A rigged model over Qwen3's tokenizer.
std::string script(const char* name, const std::vector<int32_t>& chain,
                   ScriptOptions options = {}) {
  const std::filesystem::path dir = fresh_test_dir(name) / "model";
  options.folder.tokenizer_json = qwen3_tokenizer_json();
  write_script(dir, chain, options);
  return dir.string();
}

ScriptOptions stops_at(int32_t eos) {
  ScriptOptions options;
  options.folder.generation_eos = {eos};
  return options;
}

TEST_CASE("run: a machine without a GPU hears of none unless it asks") {
  const LlmResult plain = run_llm({"run", "-m", "tiny", "-n", "1", "hi"});
  CHECK(plain.exit_code == 0);
  CHECK_MESSAGE(!contains(plain.err, "no NVIDIA driver"), plain.err);
  const LlmResult verbose = run_llm({"run", "-m", "tiny", "-v", "-n", "1", "hi"});
  const bool says_where =
      contains(verbose.err, "computing on the CPU") || contains(verbose.err, "cuda:");
  CHECK_MESSAGE(says_where, verbose.err);
}

TEST_CASE("run: logits and the greedy continuation are the reference's") {
  LLM_SKIP_WITHOUT_DATA("run-fixtures");
  for (const char* name : {"qwen3-bf16-tied", "qwen2-bf16", "llama-bf16"}) {
    CAPTURE(name);
    const JsonValue expected = read_json_file(fixture(name) + "/expected.json");
    const std::filesystem::path npy = fresh_test_dir("cli-logits") / "logits.npy";
    const JsonValue got = run_json({"run", "-m", fixture(name), "--token-ids",
                                    joined(*expected.find("input_ids")), "--act", "f32", "-n", "16",
                                    "--ignore-eos", "--greedy", "--logits-out", npy.string()});
    CHECK(integers(got.find("ids")) == integers(expected.find("greedy")));
    CHECK(got.find("finish_reason")->string == "length");
    const NpyMatrix logits = read_npy(npy);
    const auto& rows = expected.find("logits")->array;
    REQUIRE(logits.rows == static_cast<int64_t>(rows.size()));
    REQUIRE(logits.cols == 320);
    double largest = -1e9, smallest = 1e9, difference = 0;
    for (size_t i = 0; i < logits.values.size(); ++i) {
      const double wanted = rows[i / 320].array[i % 320].number;
      largest = std::max(largest, wanted);
      smallest = std::min(smallest, wanted);
      difference = std::max(difference, std::abs(wanted - logits.values[i]));
    }
    CHECK(difference <= 1e-3 * (largest - smallest));
  }
}

TEST_CASE("run --json: the fields of the contract") {
  LLM_SKIP_WITHOUT_DATA("run-json");
  const Args args = {
      "run",    "-m", fixture("qwen3-bf16-tied"), "--token-ids", "1 2 3", "-n", "4", "--ignore-eos",
      "--seed", "7"};
  const JsonValue j = run_json(args);
  CHECK(j.find("content")->is_string());
  CHECK(j.find("reasoning")->is_null());
  CHECK(j.find("prompt_ids") == nullptr);
  CHECK(j.find("usage")->find("prompt_tokens")->integer == 3);
  CHECK(j.find("usage")->find("completion_tokens")->integer == 4);
  CHECK(j.find("usage")->find("reasoning_tokens")->integer == 0);
  CHECK(j.find("usage")->find("cached_tokens")->integer == 0);
  CHECK(j.find("ttft_ms")->number > 0);
  CHECK(j.find("tpot_ms")->number > 0);
  CHECK(j.find("run")->find("seed")->integer == 7);
  CHECK(j.find("run")->find("device")->string == "cpu");
  for (const char* key : {"version", "isa", "act", "kv_dtype"}) {
    CHECK(j.find("run")->find(key)->is_string());
  }
  CHECK(j.find("run")->find("model_sha256")->is_null());
  // The same seed draws the same, another seed something else.
  CHECK(integers(run_json(args).find("ids")) == integers(j.find("ids")));
  const JsonValue one =
      run_json({"run", "-m", fixture("qwen3-bf16-tied"), "--token-ids", "1 2 3", "-n", "1"});
  CHECK(one.find("tpot_ms")->is_null());
  const JsonValue none =
      run_json({"run", "-m", fixture("qwen3-bf16-tied"), "--token-ids", "1 2 3", "-n", "0"});
  CHECK(none.find("ttft_ms")->is_null());
  CHECK(none.find("ids")->array.empty());
}

TEST_CASE("run: stdout is the content field, byte for byte") {
  LLM_SKIP_WITHOUT_DATA("run-stdout");
  const Args args = {"run",   "-m",       fixture("qwen3-bf16-tied"),
                     "--raw", "hello",    "-n",
                     "40",    "--greedy", "--ignore-eos"};
  const LlmResult text = run_llm(args);
  CHECK(text.exit_code == 0);
  CHECK(text.out == run_json(args).find("content")->string);
  CHECK(contains(text.err, "raw prompt"));
  CHECK(run_llm(with(args, {"-q"})).err.empty());
}

TEST_CASE("run: a full context ends with length") {
  LLM_SKIP_WITHOUT_DATA("run-context-full");
  const JsonValue j = run_json({"run", "-m", fixture("qwen3-bf16-tied"), "--token-ids",
                                "1 2 3 4 5 6 7 8 9 10", "--ctx", "16", "--ignore-eos", "--greedy"});
  CHECK(j.find("finish_reason")->string == "length");
  CHECK(j.find("usage")->find("prompt_tokens")->integer == 10);
  CHECK(j.find("usage")->find("completion_tokens")->integer == 6);
}

TEST_CASE("run: a prompt that fills the context is no silent end") {
  LLM_SKIP_WITHOUT_DATA("run-context-exact");
  const Args args = {"run", "-m", fixture("qwen3-bf16-tied"), "--token-ids", "1 2 3", "--ctx", "3"};
  const LlmResult full = run_llm(args);
  CHECK(full.exit_code == 0);
  CHECK_MESSAGE(contains(full.err, "3 tokens fill the context of 3"), full.err);
  CHECK(contains(full.err, "--ctx"));
  CHECK_FALSE(contains(run_llm(with(args, {"-n", "0"})).err, "warning"));
}

TEST_CASE("run: logits that can't be written are refused before the work") {
  LLM_SKIP_WITHOUT_DATA("run-logits-refused");
  const std::string dir = fresh_test_dir("cli-logits-refused").string();
  for (const std::string& path : {dir, dir + "/no/such/a.npy"}) {
    const LlmResult r = run_llm({"run", "-m", fixture("qwen3-bf16-tied"), "--token-ids", "1", "-n",
                                 "1", "--logits-out", path});
    CHECK(r.exit_code == 2);
    CHECK(r.out.empty());
    CHECK_MESSAGE(contains(r.err, path), r.err);
  }
}

TEST_CASE("run: ill-formed UTF-8 in --system and --stop is repaired, with a warning") {
  LLM_SKIP_WITHOUT_DATA("run-repair");
  const Args args = {"run", "-m", fixture("qwen3-bf16-tied"), "-n", "0", "--print-ids", "hi"};
  const LlmResult broken = run_llm(with(args, {"--system", "a\xe6", "--stop", "\xff"}));
  CHECK(broken.exit_code == 0);
  CHECK(contains(broken.err, "--system is not valid UTF-8"));
  CHECK(contains(broken.err, "--stop is not valid UTF-8"));
  CHECK(prompt_ids(with({args.begin(), args.begin() + 3}, {"hi", "--system", "a\xe6"})) ==
        prompt_ids(with({args.begin(), args.begin() + 3}, {"hi", "--system", "a\xef\xbf\xbd"})));
}

TEST_CASE("run: prompt parts, newlines and escapes") {
  LLM_SKIP_WITHOUT_DATA("run-prompt-parts");
  const std::string model = script("cli-prompt", {9707, 17453, 151645});
  const Args raw = {"run", "-m", model, "--raw"};
  const std::filesystem::path file = fresh_test_dir("cli-prompt-file") / "prompt.txt";
  write_text(file, "hi\n");
  CHECK(prompt_ids(with(raw, {"-f", file.string()})) == "6023 198");
  CHECK(prompt_ids(with(raw, {"-f", file.string(), "--strip-newline"})) == "6023");
  CHECK(prompt_ids(with(raw, {"a\\nb"})) == "64 1699 65");
  CHECK(prompt_ids(with(raw, {"a\nb"})) == "64 198 65");
  CHECK(prompt_ids(with(raw, {"a\\nb", "--escape"})) == "64 198 65");
  CHECK(prompt_ids(with(raw, {"a"}), "\nb") == "64 198 65");
  CHECK(prompt_ids(with(raw, {"-"}), "hi") == "6023");
  CHECK(prompt_ids(with(raw, {"run"})) == prompt_ids(raw, "run"));      // a subcommand's name
  CHECK(prompt_ids(with(raw, {"[X]"})) == prompt_ids(raw, "[X]"));      // brackets stay
  CHECK(prompt_ids(with(raw, {"--", "-x"})) == prompt_ids(raw, "-x"));  // looks like a flag
  CHECK(prompt_ids(raw, std::string("a\0b", 3)) == "64 188 65");        // NUL
  LlmResult broken = run_llm(with(raw, {"-n", "0", "--print-ids"}), "\xe6\xad");
  CHECK(broken.exit_code == 0);
  CHECK(contains(broken.err, "prompt ids: 5691\n"));
  CHECK(contains(broken.err, "UTF-8"));
}

TEST_CASE("run: a character over several tokens comes out whole") {
  LLM_SKIP_WITHOUT_DATA("run-emoji");
  const std::string model = script("cli-emoji", {9707, 9284, 104, 254, 151645}, stops_at(151645));
  const LlmResult r = run_llm({"run", "-m", model, "--raw", "Hello"});
  CHECK(r.exit_code == 0);
  CHECK(r.out == "\xf0\x9f\xab\xa0");
}

TEST_CASE("run: stop strings over token borders are not printed") {
  LLM_SKIP_WITHOUT_DATA("run-stop");
  const std::string model = script("cli-stop", {9707, 71286, 41, 15, 151645}, stops_at(151645));
  const JsonValue j = run_json({"run", "-m", model, "--raw", "Hello", "--stop", "GHIJ"});
  CHECK(j.find("content")->string == "ABCDEF");
  CHECK(j.find("finish_reason")->string == "stop");
  CHECK(integers(j.find("ids")) == std::vector<int64_t>{71286, 41});
  const JsonValue several = run_json(
      {"run", "-m", model, "--raw", "Hello", "--stop", "zz", "--stop", "[x]", "--stop", "CD"});
  CHECK(several.find("content")->string == "AB");
  const JsonValue without = run_json({"run", "-m", model, "--raw", "Hello"});
  CHECK(without.find("content")->string == "ABCDEFGHIJ0");
  CHECK(integers(without.find("ids")).back() == 151645);
}

TEST_CASE("run: eos is the union of what the files say") {
  LLM_SKIP_WITHOUT_DATA("run-eos");
  for (const int32_t eos : {151645, 151643}) {
    for (const bool in_config : {true, false}) {
      FolderOptions folder;
      (in_config ? folder.config_eos : folder.generation_eos) = {eos};
      const std::string model = script("cli-eos", {9707, 17453, eos}, {.folder = folder});
      const Args args = {"run", "-m", model, "--raw", "Hello", "-n", "6"};
      const JsonValue j = run_json(args);
      CHECK(integers(j.find("ids")) == std::vector<int64_t>{17453, eos});
      CHECK(j.find("finish_reason")->string == "stop");
      CHECK(run_json(with(args, {"--ignore-eos"})).find("ids")->array.size() == 6);
    }
  }
}

TEST_CASE("run: an interrupt keeps what was printed and ends with 130") {
  LLM_SKIP_WITHOUT_DATA("run-interrupt");
  const std::string model = script("cli-interrupt", {9707, 17453}, {.loop = true});
  LlmCall call;
  call.args = {"run", "-m", model, "--raw", "Hello", "-n", "30000", "--ctx", "32000"};
  call.interrupt_after_output = true;
  const LlmResult r = run_llm(call);
  CHECK(r.exit_code == 130);
  CHECK(contains(r.out, "Done"));
}

TEST_CASE("run: a chat uses the template, and says so") {
  LLM_SKIP_WITHOUT_DATA("run-chat");
  const Args model = {"run", "-m", fixture("qwen3-bf16-tied"), "--greedy"};
  const LlmResult chat = run_llm(with(model, {"hi", "-n", "1"}));
  const LlmResult raw = run_llm(with(model, {"hi", "-n", "1", "--raw"}));
  CHECK(chat.exit_code == 0);
  CHECK(contains(chat.err, "chat template"));
  CHECK(contains(raw.err, "raw prompt"));
  const std::filesystem::path file = fresh_test_dir("cli-chat") / "messages.json";
  write_text(file, R"([{"role": "user", "content": "hi"}])");
  CHECK(prompt_ids(with(model, {"--messages", file.string()})) == prompt_ids(with(model, {"hi"})));
  CHECK(prompt_ids(with(model, {"hi\n"})) != prompt_ids(with(model, {"hi"})));
  CHECK(prompt_ids(model, "hi\n") == prompt_ids(with(model, {"hi"})));
  CHECK(prompt_ids(with(model, {"--keep-newline"}), "hi\n") == prompt_ids(with(model, {"hi\n"})));
  write_text(file, R"({"messages": [{"role": "user", "content": ""}]})");
  CHECK(run_llm(with(model, {"-n", "1", "--messages", file.string()})).exit_code == 0);
  write_text(file, R"({"messages": [], "temperature": 1})");
  const LlmResult unknown = run_llm(with(model, {"--messages", file.string()}));
  CHECK(unknown.exit_code == 2);
  CHECK(contains(unknown.err, "temperature"));
}

TEST_CASE("run: without a chat template it asks for --raw or --chat-template") {
  LLM_SKIP_WITHOUT_DATA("run-no-template");
  // A vocabulary with the markers of ChatML would do.
  const std::filesystem::path bare = fresh_test_dir("cli-bare-tokenizer") / "model";
  write_random2(bare, {.vocab_size = 320});
  write_text(bare / "tokenizer.json", R"({"version": "1.0", "added_tokens": [], "normalizer": null,
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
      "post_processor": null, "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})");
  const LlmResult r = run_llm({"run", "-m", bare.string(), "Hello"});
  CHECK(r.exit_code == 2);
  CHECK(contains(r.err, "--raw"));
  CHECK(contains(r.err, "--chat-template"));
  const std::string model = script("cli-no-template", {9707, 17453, 151645});
  const std::filesystem::path file = fresh_test_dir("cli-template") / "t.jinja";
  write_text(file, "{{ messages[0].content }}");
  CHECK(prompt_ids({"run", "-m", model, "Hello", "--chat-template", file.string()}) == "9707");
}

TEST_CASE("run: temperature 0 gives one output whatever the seed, temperature 1 several") {
  LLM_SKIP_WITHOUT_DATA("run-seeds");
  const Args args = {"run",
                     "-m",
                     fixture("qwen3-bf16-tied"),
                     "--token-ids",
                     "5 6 7",
                     "-n",
                     "8",
                     "--ignore-eos",
                     "--top-k",
                     "0"};
  const auto ids = [&](const Args& more) {
    return integers(run_json(with(args, more)).find("ids"));
  };
  const auto greedy = ids({"--temp", "0", "--seed", "1"});
  CHECK(ids({"--temp", "0", "--seed", "2", "--top-p", "0.5"}) == greedy);
  CHECK(ids({"--greedy"}) == greedy);
  CHECK(ids({"--temp", "1", "--seed", "1", "--top-p", "1"}) !=
        ids({"--temp", "1", "--seed", "2", "--top-p", "1"}));
  const LlmResult both = run_llm(with(args, {"--greedy", "--temp", "0.5"}));
  CHECK(both.exit_code == 2);
}

/// The seed's table: Qwen3-0.6B, a prompt of 17 tokens.
constexpr const char* kModuleShapes[][3] = {
    {"embed_tokens", "[1, 17] → [1, 17, 1024]", "[1, 1] → [1, 1, 1024]"},
    {"input_layernorm", "[1, 17, 1024] → [1, 17, 1024]", "[1, 1, 1024] → [1, 1, 1024]"},
    {"q_proj", "[1, 17, 1024] → [1, 17, 2048]", "[1, 1, 1024] → [1, 1, 2048]"},
    {"k_proj", "[1, 17, 1024] → [1, 17, 1024]", "[1, 1, 1024] → [1, 1, 1024]"},
    {"v_proj", "[1, 17, 1024] → [1, 17, 1024]", "[1, 1, 1024] → [1, 1, 1024]"},
    {"self_attn", "[1, 17, 1024] → [1, 17, 1024]", "[1, 1, 1024] → [1, 1, 1024]"},
    {"post_attention_layernorm", "[1, 17, 1024] → [1, 17, 1024]", "[1, 1, 1024] → [1, 1, 1024]"},
    {"gate_proj", "[1, 17, 1024] → [1, 17, 3072]", "[1, 1, 1024] → [1, 1, 3072]"},
    {"up_proj", "[1, 17, 1024] → [1, 17, 3072]", "[1, 1, 1024] → [1, 1, 3072]"},
    {"down_proj", "[1, 17, 3072] → [1, 17, 1024]", "[1, 1, 3072] → [1, 1, 1024]"},
    {"norm", "[1, 17, 1024] → [1, 17, 1024]", "[1, 1, 1024] → [1, 1, 1024]"},
    {"lm_head", "[1, 17, 1024] → [1, 17, 151936]", "[1, 1, 1024] → [1, 1, 151936]"},
};

/// The text with every run of blanks as one.
std::string squeezed(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c != ' ' || !result.ends_with(' ')) result += c;
  }
  return result;
}

TEST_CASE("run --trace-shapes: every shape of the Qwen3-0.6B walk") {
  LLM_SKIP_WITHOUT_DATA("trace-shapes");
  const std::filesystem::path dir = fresh_test_dir("cli-trace");
  std::filesystem::create_symlink(std::filesystem::absolute(qwen3_tokenizer_json()),
                                  dir / "tokenizer.json");
  std::filesystem::create_symlink(
      std::filesystem::absolute(shared_data() / "qwen3-tokenizer" / "tokenizer_config.json"),
      dir / "tokenizer_config.json");
  // 中国的首都是哪里？
  const std::string prompt =
      "\xe4\xb8\xad\xe5\x9b\xbd\xe7\x9a\x84\xe9\xa6\x96\xe9\x83\xbd\xe6\x98\xaf\xe5\x93\xaa\xe9\x87"
      "\x8c\xef\xbc\x9f";
  const LlmResult r =
      run_llm({"run", "--config", "qwen3-0.6b", "--random-weights", "--tokenizer", dir.string(),
               "--device", "shape", "--think", "off", "--trace-shapes", prompt});
  REQUIRE_MESSAGE(r.exit_code == 0, r.err);
  CHECK(r.out.empty());
  const std::string table = squeezed(r.err);
  for (const auto& [name, prefill, decode] : kModuleShapes) {
    const std::string row = std::string("\n") + name + " " + prefill + " " + decode + "\n";
    CHECK_MESSAGE(contains(table, row), row);
  }
  CHECK(contains(table, "[1, 8, 17, 128] → [1, 8, 18, 128]\n"));
  CHECK(contains(table, "[1, 16, 17, 17] → [1, 16, 1, 18]\n"));
}

TEST_CASE("run --trace-shapes: cpu and shape print the same tables") {
  LLM_SKIP_WITHOUT_DATA("trace-shapes-cpu");
  const Args args = {"run",
                     "-q",
                     "-m",
                     fixture("qwen3-bf16-tied"),
                     "--token-ids",
                     "1 2 3 4 5",
                     "--trace-shapes",
                     "--ignore-eos",
                     "--device"};
  const LlmResult cpu = run_llm(with(args, {"cpu"}));
  const LlmResult shape = run_llm(with(args, {"shape"}));
  CHECK(cpu.exit_code == 0);
  CHECK(contains(cpu.err, "[1, 1, 5, 64] → [1, 1, 6, 64]"));
  CHECK(cpu.err == shape.err);
}

}  // namespace
}  // namespace llm
