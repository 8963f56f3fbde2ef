// `llm bench`: the JSON schema, and numbers that follow from each other.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "engine/bench.h"
#include "io/json.h"
#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace {

using Args = std::vector<std::string>;

JsonValue bench(const Args& more) {
  Args args = {"bench",    "-m",     (shared_data() / "fixtures" / "qwen3-bf16-tied").string(),
               "--format", "json",   "--prompt-len",
               "20",       "--reps", "2"};
  args.insert(args.end(), more.begin(), more.end());
  const LlmResult r = run_llm(args);
  REQUIRE_MESSAGE(r.exit_code == 0, r.err);
  return parse_json(r.out, "bench");
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

TEST_CASE("summarize: mean, median, nearest-rank 99th percentile") {
  const Summary odd = summarize({3, 1, 2});
  CHECK(odd.mean == 2);
  CHECK(odd.median == 2);
  CHECK(odd.p99 == 3);
  CHECK(summarize({1, 2, 3, 10}).median == 2.5);
  std::vector<double> hundred;
  for (int i = 200; i > 0; --i) hundred.push_back(i);
  CHECK(summarize(hundred).p99 == 198);
}

TEST_CASE("bench --format json: schema 1") {
  LLM_SKIP_WITHOUT_DATA("bench-json");
  const JsonValue j = bench({"--gen-len", "4", "--depth", "10"});
  CHECK(j.find("schema")->integer == 1);
  CHECK(j.find("machine")->find("read_gbs")->number > 0);
  CHECK(j.find("definitions")->is_string());
  REQUIRE(j.find("runs")->array.size() == 1);
  const JsonValue& run = j.find("runs")->array[0];
  CHECK(run.find("batch")->integer == 1);
  CHECK(run.find("prompt_len")->integer == 20);
  CHECK(run.find("gen_len")->integer == 4);
  CHECK(run.find("depth")->integer == 10);
  for (const char* key : {"mean", "median", "p99"}) {
    CHECK(run.find("ttft_ms")->find(key)->number > 0);
    CHECK(run.find("tpot_ms")->find(key)->number > 0);
  }
  CHECK(near(run.find("prefill_tok_s")->number, 20e3 / run.find("ttft_ms")->find("mean")->number));
  CHECK(near(run.find("decode_tok_s")->number, 1e3 / run.find("tpot_ms")->find("mean")->number));
  // 34 tokens in 3 blocks; K and V of 2 layers, 1 head of 64 BF16 values.
  CHECK(run.find("kv_bytes")->integer == 3 * 16 * 2 * 2 * 64 * 2);
  CHECK(run.find("peak_bytes")->integer > run.find("kv_bytes")->integer);
}

TEST_CASE("bench stages: FLOP of both phases by hand") {
  LLM_SKIP_WITHOUT_DATA("bench-stages");
  const JsonValue j = bench({"--gen-len", "3", "--depth", "10"});
  double prefill_mlp = 0, decode_head = 0, prefill_head = 0;
  for (const JsonValue& stage : j.find("runs")->array[0].find("stages")->array) {
    const bool decode = stage.find("phase")->string == "decode";
    const double flop = stage.find("flop")->number;
    if (!decode && stage.find("name")->string == "norm+gate_up_proj+silu") prefill_mlp = flop;
    if (decode && stage.find("name")->string == "norm+lm_head") decode_head = flop;
    if (!decode && stage.find("name")->string == "norm+lm_head") prefill_head = flop;
    CHECK(stage.find("time_ms")->number >= 0);
    CHECK(stage.find("limit_ms")->number >= 0);
  }
  // 2 layers of 20 rows times [128, 2 x 192]; the head sees one row per step.
  CHECK(prefill_mlp == 2.0 * 2 * 20 * 128 * 384);
  CHECK(decode_head == 2.0 * 128 * 320);
  CHECK(prefill_head == 2.0 * 128 * 320);
}

TEST_CASE("bench --batch: requests at once, their decode rows in one step") {
  LLM_SKIP_WITHOUT_DATA("bench-batch");
  const JsonValue j = bench({"--gen-len", "9", "--depth", "10", "--batch", "3"});
  const JsonValue& run = j.find("runs")->array[0];
  CHECK(run.find("batch")->integer == 3);
  CHECK(run.find("kv_bytes")->integer == 3 * 3 * 16 * 2 * 2 * 64 * 2);
  CHECK(run.find("decode_tok_s")->number > 0);
  double decode_head = 0;
  for (const JsonValue& stage : run.find("stages")->array) {
    const bool decode = stage.find("phase")->string == "decode";
    if (decode && stage.find("name")->string == "norm+lm_head") {
      decode_head = stage.find("flop")->number;
    }
  }
  CHECK(decode_head == 3 * 2.0 * 128 * 320);
}

/// FLOP of one stage of a run.
double flop_of(const JsonValue& run, const std::string& phase, const std::string& name) {
  for (const JsonValue& stage : run.find("stages")->array) {
    if (stage.find("phase")->string == phase && stage.find("name")->string == name) {
      return stage.find("flop")->number;
    }
  }
  return 0;
}

TEST_CASE("bench --batch 1,3: one run after the other on one model") {
  LLM_SKIP_WITHOUT_DATA("bench-batches");
  const JsonValue j = bench({"--gen-len", "5", "--batch", "1,3", "--draft", "ngram"});
  const auto& runs = j.find("runs")->array;
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].find("batch")->integer == 1);
  CHECK(runs[1].find("batch")->integer == 3);
  CHECK(flop_of(runs[1], "prefill", "norm+qkv_proj") ==
        3 * flop_of(runs[0], "prefill", "norm+qkv_proj"));
}

TEST_CASE("bench --prefix-cache: the depth is found, not computed") {
  LLM_SKIP_WITHOUT_DATA("bench-prefix-cache");
  const auto flop = [](const Args& more) {
    Args args = {"--gen-len", "3", "--depth", "64"};
    args.insert(args.end(), more.begin(), more.end());
    return flop_of(bench(args).find("runs")->array[0], "prefill", "norm+qkv_proj");
  };
  CHECK(flop({"--prefix-cache"}) == flop({}));
  CHECK(flop({"--prefix-cache", "--block-size", "48"}) > flop({}));  // 48 of the 64 are shared
}

TEST_CASE("bench: one or no generated token gives null fields, no NaN") {
  LLM_SKIP_WITHOUT_DATA("bench-null");
  const JsonValue none = bench({"--gen-len", "0"});
  const JsonValue& run0 = none.find("runs")->array[0];
  CHECK(run0.find("ttft_ms")->find("mean")->is_null());
  CHECK(run0.find("tpot_ms")->find("mean")->is_null());
  CHECK(run0.find("decode_tok_s")->is_null());
  CHECK(run0.find("prefill_tok_s")->number > 0);
  const JsonValue one = bench({"--gen-len", "1"});
  const JsonValue& run1 = one.find("runs")->array[0];
  CHECK(run1.find("ttft_ms")->find("mean")->number > 0);
  CHECK(run1.find("tpot_ms")->find("p99")->is_null());
  CHECK(run1.find("decode_tok_s")->is_null());
}

TEST_CASE("bench: a run beyond the context is refused, and shape has no times") {
  LLM_SKIP_WITHOUT_DATA("bench-limits");
  const std::string model = (shared_data() / "fixtures" / "qwen3-bf16-tied").string();
  const LlmResult r = run_llm({"bench", "-m", model, "--prompt-len", "500", "--gen-len", "100"});
  CHECK(r.exit_code == 2);
  CHECK(r.err.find("600") != std::string::npos);
  CHECK(r.err.find("512") != std::string::npos);
  const LlmResult deep = run_llm({"bench", "-m", model, "--depth", "511"});
  CHECK(deep.exit_code == 2);
  CHECK(deep.err.find("depth 511 + prompt 512 + generated 128 are 1151") != std::string::npos);
  const JsonValue shape = bench({"--device", "shape", "--gen-len", "3"});
  const JsonValue& run = shape.find("runs")->array[0];
  CHECK(run.find("ttft_ms")->find("mean")->is_null());
  CHECK(shape.find("machine")->find("read_gbs")->is_null());
  CHECK(run.find("stages")->array[0].find("time_ms")->is_null());
}

}  // namespace
}  // namespace llm
