// Mixtures of experts: the shared fixture, and what a batch may not change.
#include <doctest/doctest.h>

#include <vector>

#include "model_fixtures.h"
#include "model_harness.h"
#include "test_data.h"

namespace llm {
namespace {

std::filesystem::path fixture_dir() { return shared_data() / "fixtures" / "qwen3-moe-bf16"; }

}  // namespace

TEST_CASE("experts: the fixture's logits and greedy continuation") {
  LLM_SKIP_WITHOUT_DATA("experts, logits");
  const Fixture f = read_fixture(fixture_dir());
  for (Isa isa : supported_isas()) {
    CAPTURE(name_of(isa));
    RunningModel exact(fixture_dir(), {.isa = isa});
    CHECK(difference(exact.logits(f.ids), f.logits).max <= 1e-3 * range(f.logits));
    CHECK(exact.greedy(f.ids, static_cast<int64_t>(f.greedy.size())) == f.greedy);
    RunningModel rounded(fixture_dir(),
                         {.isa = isa, .act = ActDType::kBF16, .kv_dtype = DType::kBF16});
    const Difference d = difference(rounded.logits(f.ids), f.logits);
    CHECK(d.max <= 1.5 * f.bf16_max);
    CHECK(d.mean <= 1.5 * f.bf16_mean);
  }
}

TEST_CASE("experts: prefill at once, token by token and with any threads give the same bits") {
  LLM_SKIP_WITHOUT_DATA("experts, invariance");
  const Fixture f = read_fixture(fixture_dir());
  const std::vector<int64_t> single(f.ids.size(), 1);
  for (Isa isa : supported_isas()) {
    for (ActDType act : {ActDType::kF32, ActDType::kBF16}) {
      CAPTURE(name_of(isa));
      const DType kv = act == ActDType::kF32 ? DType::kF32 : DType::kBF16;
      RunningModel model(fixture_dir(), {.isa = isa, .threads = 1, .act = act, .kv_dtype = kv});
      const Logits whole = model.logits(f.ids);
      CHECK(same_bits(whole, model.logits(f.ids, single)));
      RunningModel other(fixture_dir(), {.isa = isa, .threads = 3, .act = act, .kv_dtype = kv});
      CHECK(same_bits(whole, other.logits(f.ids)));
    }
  }
}

}  // namespace llm
