// The models and reference logits of tests/goldens, made by scripts/make_goldens.py.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace llm {

struct GoldenModel {
  std::string name;           // "qwen3-group4"
  std::filesystem::path dir;  // a model folder: config.json and model.safetensors

  std::vector<int32_t> input_ids;  // [T] the prompt
  // Float32 reference. Some positions with all logits, and per position what needs few numbers.
  std::vector<int64_t> positions;          // [P] ascending
  std::vector<std::vector<float>> logits;  // [P][vocab_size]
  std::vector<int32_t> argmax;             // [T]
  std::vector<float> margin;               // [T] best logit less the second best
  std::vector<float> lse;                  // [T] log-sum-exp of the logits
  float logit_min = 0;                     // over all positions
  float logit_max = 0;

  std::vector<int32_t> greedy;  // continuation by arg-max, eos ignored
  float greedy_min_margin = 0;  // smallest margin on the way

  // How far transformers' own BF16 run is off: a yardstick for 16-bit activations.
  float bf16_max_abs_diff = 0;
  float bf16_mean_abs_diff = 0;
};

/// Names of all goldens, sorted.
std::vector<std::string> golden_model_names();

/// Reads a golden and writes its model folder below build/test-data.
GoldenModel load_golden_model(const std::string& name);

}  // namespace llm
