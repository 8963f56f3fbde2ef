// How long a context may be, from the flag, the request, the model and the memory.
#include "engine/memory.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "engine/sequence.h"
#include "engine/session.h"

namespace llm {
namespace {

ModelConfig model_of(int64_t max_positions) {
  ModelConfig config;
  config.max_position_embeddings = max_positions;
  return config;
}

int64_t plan(ContextRequest request, int64_t max_positions = 1000) {
  if (request.kv_bytes_per_token == 0) request.kv_bytes_per_token = 100;
  if (request.available_bytes == 0) request.available_bytes = kUnlimitedMemory;
  return plan_context(request, model_of(max_positions), Log(Verbosity::kQuiet));
}

TEST_CASE("by default the context is what the request needs, up to the model's maximum") {
  CHECK(plan({.prompt_tokens = 10, .max_tokens = 20}) == 30);
  CHECK(plan({.prompt_tokens = 10, .max_tokens = 5000}) == 1000);
  CHECK(plan({.prompt_tokens = 10, .max_tokens = kNoTokenLimit}) == 1000);
  CHECK(plan({.prompt_tokens = 1000, .max_tokens = 1}) == 1000);
}

TEST_CASE("by default it shrinks to what the memory holds") {
  // 80 % of 10,000 bytes hold 80 tokens of 100 bytes.
  CHECK(plan({.prompt_tokens = 10, .max_tokens = kNoTokenLimit, .available_bytes = 10000}) == 80);
  CHECK_THROWS_WITH_AS(plan({.prompt_tokens = 90, .max_tokens = 1, .available_bytes = 10000}),
                       doctest::Contains("90 tokens"), Error);
}

TEST_CASE("--ctx is the capacity, up to the model's maximum") {
  CHECK(plan({.ctx = 64, .prompt_tokens = 10, .max_tokens = 5}) == 64);
  CHECK(plan({.ctx = 5000, .prompt_tokens = 10, .max_tokens = 5}) == 1000);
}

TEST_CASE("--ctx beyond the memory: needed and available GiB, and the flags") {
  const ContextRequest request = {.ctx = 1000000000,
                                  .prompt_tokens = 10,
                                  .max_tokens = 5,
                                  .kv_bytes_per_token = int64_t{1} << 20,
                                  .available_bytes = int64_t{3} << 30};
  CHECK_THROWS_WITH_AS(plan(request), doctest::Contains("976562.50 GiB"), Error);
  CHECK_THROWS_WITH_AS(plan(request), doctest::Contains("3.00 GiB"), Error);
  CHECK_THROWS_WITH_AS(plan(request), doctest::Contains("--kv-dtype"), Error);
}

TEST_CASE("keys and values of 8 bits take half the memory, and a scale per token and head") {
  const ModelConfig config = *named_model_config("qwen3-0.6b");
  // 28 layers, keys and values, 8 heads of 128.
  CHECK(kv_bytes_per_token(config, DType::kBF16) == 28 * 2 * 8 * 128 * 2);
  CHECK(kv_bytes_per_token(config, DType::kF32) == 28 * 2 * 8 * 128 * 4);
  CHECK(kv_bytes_per_token(config, DType::kI8) == 28 * 2 * 8 * (128 + 4));
  CHECK(kv_bytes_per_token(config, DType::kF8E4M3) == kv_bytes_per_token(config, DType::kI8));
}

TEST_CASE("a prompt longer than the context is refused with both numbers") {
  CHECK_THROWS_WITH_AS(plan({.ctx = 16, .prompt_tokens = 20, .max_tokens = 5}),
                       doctest::Contains("20 tokens, but the context holds 16 (--ctx 16)"), Error);
  CHECK_THROWS_WITH_AS(plan({.prompt_tokens = 1001, .max_tokens = 5}),
                       doctest::Contains("1001 tokens, but the context holds 1000"), Error);
}

TEST_CASE("some memory is available") { CHECK(available_memory() > int64_t{1} << 20); }

}  // namespace
}  // namespace llm
