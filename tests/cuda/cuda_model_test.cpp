// Whole models on the CUDA backend: logits against the reference library's within what is asked of
// the CPU with BF16 activations, tokens against the CPU's.
#include <doctest/doctest.h>

#include <vector>

#include "cuda_test.h"
#include "golden_model.h"
#include "model_fixtures.h"
#include "model_harness.h"
#include "test_data.h"

namespace llm {
namespace {

RunningModel::Options on_gpu(DType kv_dtype = DType::kBF16, bool invariant = false) {
  RunningModel::Options options;
  options.kv_dtype = kv_dtype;
  options.cuda = CudaOptions{.device = 0, .invariant = invariant};
  return options;
}

}  // namespace

TEST_CASE("cuda: plain fixtures stay within 1.5 times the reference's own BF16 error") {
  LLM_SKIP_WITHOUT_DATA("cuda: plain fixtures");
  for (const char* name : kPlainFixtures) {
    CAPTURE(name);
    const auto dir = shared_data() / "fixtures" / name;
    const Fixture f = read_fixture(dir);
    RunningModel model(dir, on_gpu());
    const Logits got = model.logits(f.ids);
    const Difference d = difference(got, f.logits);
    CHECK(d.max <= 1.5 * f.bf16_max);
    CHECK(d.mean <= 1.5 * f.bf16_mean);
    RunningModel cpu(dir, {.act = ActDType::kBF16, .kv_dtype = DType::kBF16});
    const Difference c = difference(got, cpu.logits(f.ids));
    MESSAGE(name, " gpu-ref ", d.max, " (", f.bf16_max, ") gpu-cpu ", c.max, " of range ",
            range(f.logits));
    CHECK(model.greedy(f.ids, static_cast<int64_t>(f.greedy.size())) ==
          cpu.greedy(f.ids, static_cast<int64_t>(f.greedy.size())));
  }
}

TEST_CASE("cuda: own goldens stay within 1.5 times the reference's own BF16 error") {
  for (const std::string& name : golden_model_names()) {
    CAPTURE(name);
    const GoldenModel golden = load_golden_model(name);
    Logits expected;
    for (const std::vector<float>& row : golden.logits) {
      expected.insert(expected.end(), row.begin(), row.end());
    }
    RunningModel model(golden.dir, on_gpu());
    const size_t width = static_cast<size_t>(model.config().vocab_size);
    const Logits got = at_positions(model.logits(golden.input_ids), golden.positions, width);
    const Difference d = difference(got, expected);
    CHECK(d.max <= 1.5 * double{golden.bf16_max_abs_diff});
    CHECK(d.mean <= 1.5 * double{golden.bf16_mean_abs_diff});
    MESSAGE(name, " T=", golden.input_ids.size(), " gpu-ref ", d.max, " (",
            golden.bf16_max_abs_diff, ")");
  }
}

}  // namespace llm
