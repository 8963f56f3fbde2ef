// A decode step on paper: counts by hand, published limits, and where the constants are from.
#include "engine/estimate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "engine/gpu_sheet.h"
#include "little_memory.h"
#include "refusal.h"

namespace llm {
namespace {

/// A Qwen3 by the numbers of its config.json, written here once more.
struct Shape8 {
  const char* name;
  double layers, hidden, inter, q_heads;
  double kv_heads = 8, head = 128, vocab = 151936;

  double qkv() const { return (q_heads + 2 * kv_heads) * head * hidden; }
  double layer_weights() const { return qkv() + q_heads * head * hidden + 3 * hidden * inter; }
  /// BF16 weights of the products, float32 norms, an embedding row for each request.
  double weight_bytes(double batch) const {
    return 2 * (layers * layer_weights() + vocab * hidden) + 4 * hidden * (2 * layers + 1) +
           2 * batch * hidden;
  }
  double kv_bytes_per_token() const { return layers * 2 * kv_heads * head * 2; }
};

constexpr Shape8 kShapes[] = {{"qwen3-0.6b", 28, 1024, 3072, 16},
                              {"qwen3-4b", 36, 2560, 9728, 32},
                              {"qwen3-8b", 36, 4096, 12288, 32}};

bool near(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance * b; }

DecodeEstimate estimate_of(const char* model, int64_t batch, int64_t context = 1024,
                           DType kv = DType::kBF16) {
  return estimate_decode(named_model_config(model).value(), batch, context, kv);
}

double total_limit_ms(const DecodeEstimate& estimate, const GpuSheet& gpu) {
  double seconds = 0;
  for (const OperationCount& o : estimate.operations)
    seconds += limit_seconds(gpu, o.flop, o.bytes);
  return seconds * 1e3;
}

}  // namespace

TEST_CASE("estimate: launches, weights, keys and values of a step by hand") {
  for (const Shape8& s : kShapes) {
    for (const double batch : {1.0, 8.0, 9.0, 64.0}) {
      CAPTURE(s.name);
      CAPTURE(batch);
      const DecodeEstimate e = estimate_of(s.name, static_cast<int64_t>(batch), 1000);
      CHECK(e.step.weight_bytes == s.weight_bytes(batch));
      CHECK(e.step.kv_bytes == batch * 1001 * s.kv_bytes_per_token());  // 1000 read, 1 appended
      CHECK(e.step.flop == 2 * batch * (s.layers * s.layer_weights() + s.vocab * s.hidden) +
                               4 * batch * s.layers * s.q_heads * s.head * 1000);
      // From 9 rows on each norm is a launch of its own.
      CHECK(e.step.launches == (batch <= 8 ? 5 * s.layers + 3 : 7 * s.layers + 4));
    }
  }
  CHECK_FALSE(estimate_of("qwen3-8b", 65).step.launches.has_value());
}

TEST_CASE("estimate: an 8-bit cache has scales in the step, and values alone in its row") {
  const DecodeEstimate e = estimate_of("qwen3-0.6b", 2, 100, DType::kF8E4M3);
  CHECK(e.step.kv_bytes == 2 * 101 * 28 * 2 * 8 * (128 + 4));
  CHECK(e.operations.back().name == "attention");
  CHECK(e.operations.back().bytes == 2 * 100 * 28 * 2 * 8 * 128);
}

TEST_CASE("estimate: limits that were published for one request at 1024 tokens") {
  struct Limit {
    const char* model;
    const char* gpu;
    double tok_s;
  };
  constexpr Limit kLimits[] = {
      {"qwen3-0.6b", "h200", 3665}, {"qwen3-0.6b", "h100", 2558}, {"qwen3-0.6b", "rtx4090", 770},
      {"qwen3-4b", "h200", 586},    {"qwen3-4b", "h100", 409},    {"qwen3-4b", "rtx4090", 123},
      {"qwen3-8b", "h200", 314},    {"qwen3-8b", "h100", 219},    {"qwen3-8b", "rtx4090", 66},
      {"qwen3-0.6b", "a100", 1558}, {"qwen3-4b", "a100", 249},    {"qwen3-8b", "a100", 133}};
  for (const Limit& limit : kLimits) {
    CAPTURE(limit.model);
    CAPTURE(limit.gpu);
    const StepCount step = estimate_of(limit.model, 1).step;
    const double tok_s = 1 / limit_seconds(find_gpu(limit.gpu)->sheet, step.flop, step.bytes());
    // Rounded there, and with the A100's bandwidth as 2.04 TB/s.
    CHECK(std::abs(tok_s - limit.tok_s) <= 0.5 + 0.0005 * limit.tok_s);
  }
}

TEST_CASE("estimate: predictions from bytes, bandwidth and launches alone") {
  struct Constants {
    const char* gpu;
    double gbs, us;
  };
  constexpr Constants kConstants[] = {
      {"h200", 4300, 2.2}, {"h100", 3090, 1.8}, {"rtx4090", 955, 1.8}, {"a100", 1826.6, 2.2}};
  for (const Constants& c : kConstants) {
    const Gpu gpu = find_gpu(c.gpu).value();
    for (const Shape8& s : kShapes) {
      for (const double batch : {1.0, 64.0}) {
        CAPTURE(c.gpu);
        CAPTURE(s.name);
        const double bytes = s.weight_bytes(batch) + batch * 1025 * s.kv_bytes_per_token();
        const double launches = batch == 1 ? 5 * s.layers + 3 : 7 * s.layers + 4;
        const double expected = bytes / (c.gbs * 1e9) + launches * c.us * 1e-6;
        const auto got = predicted_seconds(gpu.sheet, gpu.constants.value(),
                                           estimate_of(s.name, static_cast<int64_t>(batch)).step);
        REQUIRE(got.has_value());
        CHECK(near(*got, expected, 1e-4));
      }
    }
  }
  const Gpu h200 = find_gpu("h200").value();
  CHECK_FALSE(predicted_seconds(h200.sheet, *h200.constants, estimate_of("qwen3-8b", 65).step));
}

TEST_CASE("estimate: arithmetic bounds a step where it takes longer than the bytes") {
  GpuSheet slow = find_gpu("h200")->sheet;
  slow.peak_tflops = 1;
  const StepCount step = estimate_of("qwen3-0.6b", 64).step;
  CHECK(limit_seconds(slow, step.flop, step.bytes()) == step.flop / 1e12);
  CHECK_FALSE(limited_by_memory(slow, step.flop, step.bytes()));
  CHECK(limited_by_memory(find_gpu("h200")->sheet, step.flop, step.bytes()));
}

TEST_CASE("estimate: FP8 keys and values bring LLaMA-3-8B at batch 64 from 14.8 to 9.7 ms") {
  const GpuSheet h100 = find_gpu("h100")->sheet;
  CHECK(std::abs(total_limit_ms(estimate_of("llama3-8b", 64, 4096), h100) - 14.8) < 0.05);
  const DecodeEstimate fp8 = estimate_of("llama3-8b", 64, 4096, DType::kF8E4M3);
  CHECK(std::abs(total_limit_ms(fp8, h100) - 9.7) < 0.05);
}

TEST_CASE("estimate: the cache that a model holds") {
  CHECK(estimate_of("qwen3-0.6b", 1, 1).held_kv_bytes == 112 * 1024);
  CHECK(estimate_of("qwen3-0.6b", 1, 4096).held_kv_bytes == 448.0 * 1024 * 1024);
  CHECK(estimate_of("qwen3-0.6b", 3, 4096).held_kv_bytes == 3 * 448.0 * 1024 * 1024);
  CHECK(near(estimate_of("qwen3-8b", 1).held_weight_bytes, 2 * 8.19e9, 1e-3));
}

TEST_CASE("estimate: a context beyond the model's is refused") {
  check_contains(refusal_of([] { estimate_of("llama3-8b", 1, 8193); }), "8192 tokens at most");
  CHECK(estimate_of("llama3-8b", 1, 8192).context == 8192);
}

TEST_CASE("estimate: weights and cache take no memory") {
  const int code = exit_code_within_100_mb([] {
    try {
      return estimate_of("qwen3-32b", 64, 40960).step.weight_bytes > 60e9 ? 0 : 2;
    } catch (const std::exception&) {  // no memory
      return 1;
    }
  });
  CHECK(code == 0);
}

TEST_CASE("GPU sheets: every number has its source") {
  CHECK(gpu_names() == std::vector<std::string>{"h100", "h200", "a100", "l40s", "rtx4090", "b200"});
  for (const std::string& name : gpu_names()) {
    CAPTURE(name);
    const Gpu gpu = find_gpu(name).value();
    CHECK(gpu.sheet.name == name);
    CHECK(gpu.sheet.source.find("NVIDIA") != std::string_view::npos);
    CHECK(gpu.sheet.peak_tflops > 100);
    CHECK(gpu.sheet.memory_gb >= 24);
    if (!gpu.constants) continue;
    CHECK(gpu.constants->bandwidth_gbs.value < gpu.sheet.peak_gbs);
    for (const SourcedNumber& n : {gpu.constants->bandwidth_gbs, gpu.constants->phase_us}) {
      CHECK(n.source.size() > 20);
      CHECK(n.borrowed == (n.source.find("borrowed") == 0));
      if (n.borrowed) CHECK_MESSAGE((name == "a100" || name == "rtx4090"), n.source);
    }
  }
  CHECK_FALSE(find_gpu("l40s")->constants.has_value());
  CHECK_FALSE(find_gpu("b200")->constants.has_value());
  CHECK_FALSE(find_gpu("H200").has_value());
}

TEST_CASE("GPU sheets: the cost of a launch follows from the published steps") {
  // Microseconds of the step, less those of its bytes, over its launches.
  const double h200 = (794.7 - 2.47e9 / 4300e3) / 100;
  const double h100 = (979.5 - 2.47e9 / 3090e3) / 100;
  const double rtx5090 = (965.0 - 712.0) / 142;
  CHECK(std::abs(find_gpu("h200")->constants->phase_us.value - h200) < 0.05);
  CHECK(std::abs(find_gpu("h100")->constants->phase_us.value - h100) < 0.05);
  CHECK(std::abs(find_gpu("rtx4090")->constants->phase_us.value - rtx5090) < 0.05);
}

TEST_CASE("GPU constants from a CSV file") {
  const StepConstants c = parse_step_constants(
      "# a run\r\nname,value\r\n\r\nphase_us,1.75\r\nbandwidth_gbs,4.4e3\r\n", "run.csv");
  CHECK(c.bandwidth_gbs.value == 4400);
  CHECK(c.phase_us.value == 1.75);
  CHECK(c.phase_us.source == "run.csv");
  CHECK_FALSE(c.phase_us.borrowed);
}

TEST_CASE("GPU constants: what isn't such a file is refused with its line") {
  const auto message = [](const std::string& text) {
    return refusal_of([&] { parse_step_constants(text, "f"); });
  };
  const std::string head = "name,value\n";
  check_contains(message(""), "f: there is no bandwidth_gbs");
  check_contains(message("bandwidth_gbs,1\n"), "f:1: expected the line \"name,value\" first");
  check_contains(message(head + "bandwidth_gbs,1\n"), "f: there is no phase_us");
  check_contains(message(head + "phase_us;1\n"),
                 "f:2: expected \"name,value\", not \"phase_us;1\"");
  check_contains(message(head + "\nphase_u,1\n"),
                 "f:3: unknown name \"phase_u\" (did you mean phase_us?)");
  check_contains(message(head + "flops,1\n"), "unknown name \"flops\", expected bandwidth_gbs or");
  check_contains(message(head + "phase_us,1\nphase_us,1\n"), "f:3: phase_us is there twice");
  for (const char* value : {"", "x", "1x", "0", "-1", "nan", "inf", "1e7", " 1", "1,2", "0x10"}) {
    check_contains(message(head + "phase_us," + value + "\n"),
                   "f:2: phase_us is \"" + std::string(value) + "\", expected a number above 0");
  }
}

}  // namespace llm
