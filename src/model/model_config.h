// What config.json says about a decoder, in Hugging Face's key names. The only code that knows
// the spellings in use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quant/quant_config.h"

namespace llm {

enum class Architecture { kQwen3, kQwen3Moe, kQwen2, kLlama };

/// "Qwen3ForCausalLM".
std::string_view name_of(Architecture architecture);

enum class RopeType { kDefault, kLinear, kLlama3, kYarn };

/// Rotary position embedding. Fields that the type doesn't use keep their defaults.
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  double factor = 1.0;
  double original_max_position_embeddings = 0;  // llama3, yarn
  double low_freq_factor = 1.0;                 // llama3
  double high_freq_factor = 4.0;                // llama3
  double beta_fast = 32.0;                      // yarn
  double beta_slow = 1.0;                       // yarn
  bool truncate = true;                         // yarn
  double attention_factor = 1.0;                // yarn: multiplies cos and sin
};

/// Mixture of experts in place of the MLP of some layers.
struct MoeConfig {
  int64_t num_experts = 0;
  int64_t num_experts_per_tok = 0;
  int64_t moe_intermediate_size = 0;
  bool norm_topk_prob = false;  // the chosen experts' weights are divided by their sum
  int64_t decoder_sparse_step = 1;
  std::vector<int64_t> mlp_only_layers;

  /// Whether this layer has experts, as transformers decides (modeling_qwen3_moe.py).
  bool is_sparse(int64_t layer) const;
};

struct ModelConfig {
  Architecture architecture = Architecture::kQwen3;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  RopeConfig rope;
  std::optional<MoeConfig> moe;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;  // Qwen2 always, others by attention_bias
  bool o_bias = false;    // Llama and Qwen3 with attention_bias
  bool mlp_bias = false;  // Llama
  bool qk_norm = false;   // Qwen3: RMSNorm over head_dim on q and k
  std::vector<int32_t> eos_token_ids;
  std::optional<QuantConfig> quantization;  // nothing: plain weights

  /// Rows of q_proj: num_attention_heads * head_dim, which may differ from hidden_size.
  int64_t q_size() const { return num_attention_heads * head_dim; }
  /// Rows of k_proj and of v_proj.
  int64_t kv_size() const { return num_key_value_heads * head_dim; }
  /// Query heads that share one key/value head.
  int64_t group_size() const { return num_attention_heads / num_key_value_heads; }
  /// Weights of the network; a tied head counts once.
  int64_t num_parameters() const;
};

/// Parses the text of a config.json; `origin` names it in messages. Refuses (exit code 2) unknown
/// architectures, activations and rope types, quantization that can't be loaded, and numbers out
/// of range, naming key and value.
ModelConfig parse_model_config(std::string_view json, const std::string& origin);

/// Whether parse_model_config() takes this model_type ("qwen3"), and this quant_method (empty:
/// plain weights), as far as their names go.
bool can_load(std::string_view model_type, std::string_view quant_method);

/// Reads DIR/config.json.
ModelConfig load_model_config(const std::filesystem::path& model_dir);

/// A config by its hub name in lower case ("qwen3-0.6b"), or nothing.
std::optional<ModelConfig> named_model_config(std::string_view name);

/// Names that named_model_config knows.
std::vector<std::string> model_config_names();

/// Rotary frequencies of pair i = 0 .. head_dim/2 - 1, in float32 as transformers computes them
/// (modeling_rope_utils.py), with the linear, llama3 or yarn scaling applied.
std::vector<float> rope_inv_freq(const RopeConfig& rope, int64_t head_dim);

}  // namespace llm
