// Whole models on the CUDA backend: logits against the reference library's within what is asked of
// the CPU with BF16 activations, tokens against the CPU's.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
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

/// The same continuation, or another from where the CPU's two best logits are so close that both
/// errors together can turn them.
void check_greedy(RunningModel& gpu, RunningModel& cpu, const Fixture& f) {
  const auto count = static_cast<int64_t>(f.greedy.size());
  const std::vector<int32_t> a = gpu.greedy(f.ids, count);
  const std::vector<int32_t> b = cpu.greedy(f.ids, count);
  if (a == b) return;
  const auto at = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
  std::vector<int32_t> ids = f.ids;
  ids.insert(ids.end(), b.begin(), b.begin() + at);
  const Logits all = cpu.logits(ids);
  std::vector<float> last(all.end() - cpu.config().vocab_size, all.end());
  std::partial_sort(last.begin(), last.begin() + 2, last.end(), std::greater<float>());
  CHECK(last[0] - last[1] <= 2 * 1.5 * f.bf16_max);
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
    CHECK(c.max <= 1.5 * f.bf16_max);
    check_greedy(model, cpu, f);
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
  }
}

}  // namespace llm
