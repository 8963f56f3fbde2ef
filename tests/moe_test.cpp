// Mixtures of experts: the shared fixture, and what a batch may not change.
#include <doctest/doctest.h>

#include "model_fixtures.h"
#include "test_data.h"

namespace llm {
namespace {

std::filesystem::path fixture_dir() { return shared_data() / "fixtures" / "qwen3-moe-bf16"; }

}  // namespace

TEST_CASE("experts: the fixture's logits and greedy continuation") {
  LLM_SKIP_WITHOUT_DATA("experts, logits");
  check_float32(fixture_dir());
  check_bf16(fixture_dir());
}

TEST_CASE("experts: prefill at once, token by token and with any threads give the same bits") {
  LLM_SKIP_WITHOUT_DATA("experts, invariance");
  check_same_bits_however_run(fixture_dir());
}

}  // namespace llm
