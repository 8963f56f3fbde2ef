// Writes small model folders for tests: random ones, and ones rigged to answer a fixed script.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "model/model_config.h"

namespace llm {

/// How a folder is written, whatever its weights are.
struct FolderOptions {
  bool old_style_config = false;  // rope_theta, rope_scaling, torch_dtype (transformers 4)
  int num_shards = 1;             // more than 1: shards with an index
  bool duplicate_head = false;    // tied, and lm_head.weight stored all the same
  std::vector<int32_t> config_eos;
  std::vector<int32_t> generation_eos;
  std::filesystem::path tokenizer_json;  // linked into the folder; empty: none
};

/// A random Qwen3 model: heads * head_dim (128) differs from hidden_size.
struct Random2Options {
  int64_t vocab_size = 151936;
  uint64_t seed = 1;
  bool tie_word_embeddings = true;
  float standard_deviation = 0.1f;  // of all weights; norms are 1 + this times a normal number
  float k_norm_factor = 1.0f;       // by which the weights of the keys' norms are multiplied
  FolderOptions folder{};
};

/// RANDOM2's config: Qwen3, 2 layers, hidden 64, 4 heads, 2 KV heads, head_dim 32, intermediate 96.
ModelConfig random2_config(const Random2Options& options = {});

/// Writes config.json, generation_config.json and BF16 weights into `dir`, which is created.
void write_random2(const std::filesystem::path& dir, const Random2Options& options = {});

struct ScriptOptions {
  int64_t vocab_size = 151936;
  bool loop = false;  // the last token leads to the first again
  FolderOptions folder{};
};

/// A Qwen3 model that answers chain[i + 1] after chain[i], whatever came before: o_proj and
/// down_proj are zero, so the hidden state stays the token's own one-hot embedding, which an untied
/// head maps to the next token with a logit of 80 and more; all other logits are 0. After a token
/// outside the chain, and after its last one, all logits are 0 (the arg-max is id 0). Each token
/// may be listed once.
void write_script(const std::filesystem::path& dir, std::span<const int32_t> chain,
                  const ScriptOptions& options = {});

/// Fills one tensor of a model: its name, its values in row-major order ([rows, cols] or [size]).
using FillTensor =
    std::function<void(const std::string& name, std::span<float> values, int64_t cols)>;

/// Writes a folder for any config with the values that `fill` gives, rounded to `dtype` (BF16, F16
/// or F32).
void write_checkpoint(const std::filesystem::path& dir, const ModelConfig& config,
                      const FillTensor& fill, const FolderOptions& options = {},
                      DType dtype = DType::kBF16);

/// A config.json of this config, in either spelling.
std::string config_json(const ModelConfig& config, const FolderOptions& options = {});

/// Writes a text file, replacing what is there.
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace llm
