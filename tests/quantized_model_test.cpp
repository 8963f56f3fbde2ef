// Whole models with quantized weights: the shared fixtures, made by the real quantizers, against
// the logits of their dequantized weights.
#include <doctest/doctest.h>

#include <vector>

#include "model_fixtures.h"
#include "model_harness.h"
#include "test_data.h"

namespace llm {

TEST_CASE("quantized fixtures: float32 logits and greedy continuation") {
  LLM_SKIP_WITHOUT_DATA("quantized fixtures, f32");
  for (const char* name : kQuantizedFixtures) {
    const auto dir = shared_data() / "fixtures" / name;
    const Fixture f = read_fixture(dir);
    for (Isa isa : supported_isas()) {
      CAPTURE(name);
      CAPTURE(name_of(isa));
      RunningModel model(dir, {.isa = isa});
      CHECK(difference(model.logits(f.ids), f.logits).max <= 1e-3 * range(f.logits));
      CHECK(model.greedy(f.ids, static_cast<int64_t>(f.greedy.size())) == f.greedy);
    }
  }
}

TEST_CASE("quantized fixtures: 16-bit activations stay within 1.5 times the reference's own") {
  LLM_SKIP_WITHOUT_DATA("quantized fixtures, bf16");
  for (const char* name : kQuantizedFixtures) {
    const auto dir = shared_data() / "fixtures" / name;
    const Fixture f = read_fixture(dir);
    for (Isa isa : supported_isas()) {
      CAPTURE(name);
      CAPTURE(name_of(isa));
      RunningModel model(dir, {.isa = isa, .act = ActDType::kBF16, .kv_dtype = DType::kBF16});
      const Difference d = difference(model.logits(f.ids), f.logits);
      CHECK(d.max <= 1.5 * f.bf16_max);
      CHECK(d.mean <= 1.5 * f.bf16_mean);
    }
  }
}

TEST_CASE("quantized fixtures: prefill at once and token by token give the same bits") {
  LLM_SKIP_WITHOUT_DATA("quantized fixtures, invariance");
  for (const char* name : kQuantizedFixtures) {
    const auto dir = shared_data() / "fixtures" / name;
    const Fixture f = read_fixture(dir);
    const std::vector<int64_t> single(f.ids.size(), 1);
    for (Isa isa : supported_isas()) {
      for (ActDType act : {ActDType::kF32, ActDType::kBF16}) {
        CAPTURE(name);
        CAPTURE(name_of(isa));
        const DType kv = act == ActDType::kF32 ? DType::kF32 : DType::kBF16;
        RunningModel model(dir, {.isa = isa, .threads = 1, .act = act, .kv_dtype = kv});
        const Logits whole = model.logits(f.ids);
        CHECK(same_bits(whole, model.logits(f.ids, single)));
        RunningModel other(dir, {.isa = isa, .threads = 3, .act = act, .kv_dtype = kv});
        CHECK(same_bits(whole, other.logits(f.ids)));
      }
    }
  }
}

}  // namespace llm
