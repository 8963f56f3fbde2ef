// The shared fixtures, and how far logits are apart.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "model_harness.h"

namespace llm {

/// Those with plain weights and no experts.
inline constexpr const char* kPlainFixtures[] = {
    "llama-bf16",
    "qwen2-bf16",
    "qwen3-bf16-hd128-oldcfg",
    "qwen3-bf16-sharded3",
    "qwen3-bf16-tied",
    "qwen3-bf16-tied-dup-head",
    "qwen3-bf16-yarn",
    "qwen3-bf16-yarn-oldcfg",
    "qwen3-f32",
};

/// Those with quantized weights and no experts.
inline constexpr const char* kQuantizedFixtures[] = {
    "awq-w4-g128",
    "awq-w4-g64-skip",
    "awq-w4-g64-untied-sharded",
    "ct-fp8-block",
    "ct-fp8-dynamic",
    "ct-w4a16-actorder-g32",
    "ct-w4a16-asym-g32",
    "ct-w4a16-sym-g128",
    "ct-w8a16-sym-g64",
    "ct-w8a8-int8",
    "fp8-block-bf16scale",
    "fp8-block-f16scale-skip",
    "fp8-block-partial",
    "gptq-dynamic",
    "gptq-legacy-asym-g32",
    "gptq-qwen2-bias",
    "gptq-w3-sym-g32",
    "gptq-w4-asym-g32-zero0",
    "gptq-w4-asym-g64-v2",
    "gptq-w4-sym-actorder-g32",
    "gptq-w4-sym-channel",
    "gptq-w4-sym-g128",
    "gptq-w8-sym-g128",
};

/// What the reference library made of one.
struct Fixture {
  std::vector<int32_t> ids;
  std::vector<int32_t> greedy;
  Logits logits;
  double bf16_max;  // how far its own BF16 run is off
  double bf16_mean;
};

Fixture read_fixture(const std::filesystem::path& dir);

/// Float32 logits within 1e-3 of their range, and the greedy continuation, on every instruction
/// set.
void check_float32(const std::filesystem::path& dir);
/// With 16-bit activations at most 1.5 times as far off as the reference's own BF16 run.
void check_bf16(const std::filesystem::path& dir);
/// Prefill at once, token by token and with other threads: the same bits.
void check_same_bits_however_run(const std::filesystem::path& dir);

struct Difference {
  double max = 0;
  double mean = 0;
};

/// Requires equal sizes and no NaN.
Difference difference(const Logits& got, const Logits& expected);

/// Largest less smallest.
double range(const Logits& logits);

/// The rows of these positions.
Logits at_positions(const Logits& all, const std::vector<int64_t>& positions, size_t width);

}  // namespace llm
