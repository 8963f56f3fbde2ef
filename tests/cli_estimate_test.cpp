// `llm bench --estimate`: its tables against printed ones, its JSON, and what doesn't go with it.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoint_maker.h"
#include "io/json.h"
#include "refusal.h"
#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace {

using Args = std::vector<std::string>;

LlmResult estimate(const Args& more) {
  Args args = {"bench", "--estimate"};
  args.insert(args.end(), more.begin(), more.end());
  return run_llm(args);
}

std::string output(const Args& more) {
  const LlmResult r = estimate(more);
  CHECK_MESSAGE(r.exit_code == 0, r.err);
  CHECK(r.err.empty());
  return r.out;
}

JsonValue json(Args more) {
  more.insert(more.end(), {"--format", "json"});
  return parse_json(output(more), "estimate");
}

/// Exit code 2, nothing on stdout; the message.
std::string refusal(const Args& args) {
  const LlmResult r = run_llm(args);
  CHECK(r.exit_code == 2);
  CHECK(r.out.empty());
  return r.err;
}

std::string estimate_refusal(const Args& more) {
  Args args = {"bench", "--estimate", "--config", "qwen3-0.6b"};
  args.insert(args.end(), more.begin(), more.end());
  return refusal(args);
}

/// The cells of the operations, without the last column, and the total.
std::vector<std::vector<std::string>> operation_rows(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> cells;
    for (std::string word; words >> word;) cells.push_back(word);
    if (cells.empty()) {
      inside = false;
    } else if (cells[0] == "operation") {
      inside = true;
    } else if (inside) {
      if (cells.size() == 6) cells.pop_back();
      rows.push_back(cells);
    }
  }
  return rows;
}

std::string written(const char* name, const std::string& text) {
  const std::filesystem::path path = fresh_test_dir("cli-estimate") / name;
  write_text(path, text);
  return path.string();
}

}  // namespace

TEST_CASE("bench --estimate: the printed tables of LLaMA-3-8B on an H100, digit for digit") {
  const std::vector<std::vector<std::string>> golden = {
      {"qkv_proj", "1.6", "1.61", "1.0", "0.48"},
      {"o_proj", "1.1", "1.07", "1.0", "0.32"},
      {"gate_up_proj", "7.5", "7.52", "1.0", "2.24"},
      {"down_proj", "3.8", "3.76", "1.0", "1.12"},
      {"lm_head", "1.1", "1.05", "1.0", "0.31"},
      {"attention", "2.1", "0.54", "4.0", "0.16"},
      {"total", "4.64"},
      {"qkv_proj", "103.1", "1.65", "62.4", "0.49"},
      {"o_proj", "68.7", "1.11", "62.1", "0.33"},
      {"gate_up_proj", "481.0", "7.65", "62.9", "2.28"},
      {"down_proj", "240.5", "3.83", "62.7", "1.14"},
      {"lm_head", "67.2", "1.07", "63.0", "0.32"},
      {"attention", "137.4", "34.36", "4.0", "10.26"},
      {"total", "14.83"}};
  const std::string text =
      output({"--config", "llama3-8b", "--gpu", "h100", "--context", "4096", "--batch", "1,64"});
  CHECK(operation_rows(text) == golden);
  // The same from numbers of one's own.
  const std::string own = output({"--config", "llama3-8b", "--peak-tflops", "989", "--peak-gbs",
                                  "3350", "--context", "4096", "--batch", "1,64"});
  CHECK(operation_rows(own) == golden);
  check_contains(own, "predicted     unknown: nobody's measurement of this GPU");
}

TEST_CASE("bench --estimate: the step says how it is computed, from which sources") {
  const std::string text = output({"--config", "qwen3-8b", "--gpu", "h200"});
  check_contains(text, "decode, 1 request of 1024 tokens\n");
  check_contains(text,
                 "step          183 launches, 15.289 GB: weights 15.137, keys and values 0.151");
  check_contains(text, "80.5 % of the limit: 15.289 GB / 4300 GB/s + 183 x 2.2 us\n");
  check_contains(text, "target        255 tok/s, missed by 0.9 %\n");
  check_contains(text, "memory        weights 16.38 GB, cache 0.15 GB of 141 GB\n");
  check_contains(text, "\n2.2 us: fit to github.com/msaroufim/");
  check_contains(text, "Computed, not measured");
  const std::string borrowed = output({"--config", "qwen3-8b", "--gpu", "a100", "--batch", "2"});
  check_contains(borrowed, "GB / 1827 GB/s* + 183 x 2.2 us*\n");
  check_contains(borrowed, "\n*1827 GB/s: borrowed from an H200");
  CHECK(borrowed.find("target") == std::string::npos);
  check_contains(output({"--config", "qwen3-8b", "--gpu", "rtx4090", "--batch", "64"}),
                 "cache 9.66 GB don't fit into 24 GB");
  check_contains(output({"--config", "qwen3-8b", "--gpu", "h200", "--batch", "65"}),
                 "unknown: with so many requests");
}

TEST_CASE("bench --estimate --format json: schema 1") {
  const JsonValue j = json({"--config", "qwen3-0.6b", "--gpu", "h100", "--batch", "1,65"});
  CHECK(j.find("schema")->integer == 1);
  CHECK(j.find("gpu")->find("name")->string == "h100");
  CHECK(j.find("gpu")->find("bandwidth_gbs")->find("value")->number == 3090);
  CHECK_FALSE(j.find("gpu")->find("phase_us")->find("borrowed")->boolean);
  CHECK(j.find("config")->find("model")->string == "qwen3-0.6b");
  CHECK(j.find("run")->find("kv_dtype")->string == "bf16");
  REQUIRE(j.find("estimates")->array.size() == 2);
  const JsonValue& one = j.find("estimates")->array[0];
  CHECK(one.find("context")->integer == 1024);
  double total = 0;
  for (const JsonValue& stage : one.find("stages")->array) {
    total += stage.find("limit_ms")->number;
    CHECK(stage.find("limited_by")->string == "memory");
  }
  CHECK(one.find("stages")->array.size() == 6);
  CHECK(std::abs(one.find("total_limit_ms")->number - total) < 1e-9);
  const JsonValue& step = *one.find("step");
  CHECK(step.find("launches")->integer == 143);
  CHECK(step.find("bytes")->number ==
        step.find("weight_bytes")->number + step.find("kv_bytes")->number);
  CHECK(std::abs(step.find("predicted_tok_s")->number * step.find("predicted_ms")->number - 1e3) <
        1e-6);
  CHECK(step.find("target_tok_s")->number == 1470);
  CHECK(step.find("above_target_percent")->number < 0);
  CHECK(one.find("fits")->boolean);
  const JsonValue& many = *j.find("estimates")->array[1].find("step");
  for (const char* key : {"launches", "predicted_ms", "limit_percent", "target_tok_s"}) {
    CHECK(many.find(key)->is_null());
  }
  CHECK(many.find("limit_ms")->number > 0);
}

TEST_CASE("bench --estimate: targets only for what they were set for") {
  const auto target = [](const Args& more) {
    Args args = {"--config", "qwen3-8b", "--gpu", "h200"};
    args.insert(args.end(), more.begin(), more.end());
    return !json(args).find("estimates")->array[0].find("step")->find("target_tok_s")->is_null();
  };
  CHECK(target({}));
  CHECK_FALSE(target({"--batch", "2"}));
  CHECK_FALSE(target({"--context", "1000"}));
  CHECK_FALSE(target({"--kv-dtype", "fp8"}));
}

TEST_CASE("bench --estimate: a folder's config needs no weights") {
  const std::string config = written(
      "config.json",
      R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":128256,)"
      R"("hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,)"
      R"("num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":8192,)"
      R"("rms_norm_eps":1e-5,"rope_theta":500000.0,"hidden_act":"silu","eos_token_id":128001})");
  const auto rows =
      operation_rows(output({"--config", config, "--gpu", "h100", "--context", "4096"}));
  REQUIRE(rows.size() == 7);
  CHECK(rows.back() == std::vector<std::string>{"total", "4.64"});
}

TEST_CASE("bench --estimate: measured constants from a file") {
  const std::string file = written("gpu.csv", "name,value\nbandwidth_gbs,4000\nphase_us,1\n");
  const Args args = {"--config", "qwen3-8b", "--gpu", "h200", "--gpu-constants", file};
  check_contains(output(args), "/ 4000 GB/s + 183 x 1 us\n");
  check_contains(output(args), "\n1 us: " + file + "\n");
  const JsonValue own = json({"--config", "qwen3-8b", "--peak-tflops", "100", "--peak-gbs", "4000",
                              "--gpu-constants", file});
  const JsonValue& step = *own.find("estimates")->array[0].find("step");
  CHECK(std::abs(step.find("predicted_ms")->number -
                 (step.find("bytes")->number / 4000e6 + 0.183)) < 1e-9);
  CHECK(own.find("estimates")->array[0].find("fits")->is_null());
  check_contains(estimate_refusal({"--gpu", "h100", "--gpu-constants", file}),
                 "more than the 3350 GB/s of NVIDIA H100 SXM: is it of another GPU?");
  check_contains(estimate_refusal({"--gpu", "h200", "--gpu-constants", "no-such.csv"}),
                 "no-such.csv");
  check_contains(estimate_refusal({"--gpu", "h200", "--gpu-constants", ""}), "expected a value");
}

TEST_CASE("bench --estimate: GPUs that aren't known, and none at all") {
  check_contains(estimate_refusal({"--gpu", "H20O"}), "--gpu \"H20O\": did you mean h200?");
  check_contains(estimate_refusal({"--gpu", "4090"}), "expected h100, h200, a100");
  check_contains(estimate_refusal({}), "--estimate needs --gpu NAME (h100, h200");
  check_contains(estimate_refusal({"--peak-tflops", "1"}), "--peak-tflops needs --peak-gbs");
  check_contains(estimate_refusal({"--peak-gbs", "0", "--peak-tflops", "1"}),
                 "--peak-gbs \"0\": expected a number above 0");
  check_contains(estimate_refusal({"--gpu", "h200", "--peak-gbs", "1", "--peak-tflops", "1"}),
                 "can't be used together");
}

TEST_CASE("bench --estimate: options of a run, and its own without it, are refused") {
  for (const Args& more : std::vector<Args>{{"--reps", "2"},
                                            {"--warmup", "2"},
                                            {"--prompt-len", "2"},
                                            {"--gen-len", "2"},
                                            {"--depth", "2"},
                                            {"--prefix-cache"},
                                            {"--draft", "ngram"},
                                            {"--max-num-seqs", "2"},
                                            {"--kv-blocks", "2"},
                                            {"--ctx", "2"},
                                            {"-t", "2"},
                                            {"--seed", "2"},
                                            {"--act", "f32"},
                                            {"--device", "cpu"},
                                            {"--invariant"}}) {
    CAPTURE(more[0]);
    Args args = {"--gpu", "h200"};
    args.insert(args.end(), more.begin(), more.end());
    check_contains(estimate_refusal(args), "can't be used together");
  }
  for (const Args& more :
       std::vector<Args>{{"--gpu", "h200"}, {"--context", "5"}, {"--gpu-constants", "f"}}) {
    CAPTURE(more[0]);
    Args args = {"bench", "--config", "qwen3-0.6b"};
    args.insert(args.end(), more.begin(), more.end());
    check_contains(refusal(args), more[0] + " needs --estimate");
  }
  check_contains(estimate_refusal({"--gpu", "h200", "--kv-dtype", "f32"}), "bf16, fp8 or int8");
  check_contains(estimate_refusal({"--gpu", "h200", "--context", "40961"}), "40960 tokens at most");
  check_contains(estimate_refusal({"--gpu", "h200", "--context", "0"}), "--context \"0\"");
}

TEST_CASE("README: the table of predictions is what the program computes") {
  const char* binary = std::getenv("LLM_BINARY");
  const std::string command =
      std::string("scripts/gpu_table.sh ") + (binary != nullptr ? binary : "build/llm");
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string table;
  for (int c; (c = std::fgetc(pipe)) != EOF;) table += static_cast<char>(c);
  CHECK(::pclose(pipe) == 0);
  CHECK(table.find("| Qwen3-8B, 64 requests |") != std::string::npos);
  const std::string readme = file_text("README.md");
  const size_t begin = readme.find("| predicted tok/s |");
  REQUIRE(begin != std::string::npos);
  CHECK(readme.substr(begin, table.size()) == table);
}

}  // namespace llm
