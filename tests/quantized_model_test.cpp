// Whole models with quantized weights: the shared fixtures, made by the real quantizers, against
// the logits of their dequantized weights.
#include <doctest/doctest.h>

#include "model_fixtures.h"
#include "test_data.h"

namespace llm {

TEST_CASE("quantized fixtures: float32 logits and greedy continuation") {
  LLM_SKIP_WITHOUT_DATA("quantized fixtures, f32");
  for (const char* name : kQuantizedFixtures) check_float32(shared_data() / "fixtures" / name);
}

TEST_CASE("quantized fixtures: 16-bit activations stay within 1.5 times the reference's own") {
  LLM_SKIP_WITHOUT_DATA("quantized fixtures, bf16");
  for (const char* name : kQuantizedFixtures) check_bf16(shared_data() / "fixtures" / name);
}

TEST_CASE("quantized fixtures: prefill at once and token by token give the same bits") {
  LLM_SKIP_WITHOUT_DATA("quantized fixtures, invariance");
  for (const char* name : kQuantizedFixtures) {
    check_same_bits_however_run(shared_data() / "fixtures" / name);
  }
}

}  // namespace llm
