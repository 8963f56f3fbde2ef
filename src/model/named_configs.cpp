// Shapes of well-known models, for runs without a checkpoint. Numbers are those of the config.json
// published under the name (base models where there is a base and a chat model).
#include <array>

#include "model/model_config.h"

namespace llm {
namespace {

struct NamedConfig {
  std::string_view name;  // hub name in lower case
  Architecture architecture;
  int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers;
  int64_t num_attention_heads, num_key_value_heads, head_dim, max_position_embeddings;
  double rms_norm_eps, rope_theta;
  bool tie_word_embeddings;
  std::array<int32_t, 2> eos_token_ids;  // -1: no second one
};

constexpr Architecture kQwen3 = Architecture::kQwen3;
constexpr Architecture kQwen2 = Architecture::kQwen2;
constexpr Architecture kLlama = Architecture::kLlama;

// clang-format off
constexpr std::array<NamedConfig, 12> kConfigs = {{
    // name           class   vocab   hidden inter  layers heads kv head positions eps   theta  tied   eos
    {"qwen3-0.6b",    kQwen3, 151936, 1024,  3072,  28,    16,   8, 128, 40960,  1e-6, 1e6,   true,  {151645, 151643}},
    {"qwen3-1.7b",    kQwen3, 151936, 2048,  6144,  28,    16,   8, 128, 40960,  1e-6, 1e6,   true,  {151645, 151643}},
    {"qwen3-4b",      kQwen3, 151936, 2560,  9728,  36,    32,   8, 128, 40960,  1e-6, 1e6,   true,  {151645, 151643}},
    {"qwen3-8b",      kQwen3, 151936, 4096,  12288, 36,    32,   8, 128, 40960,  1e-6, 1e6,   false, {151645, 151643}},
    {"qwen3-14b",     kQwen3, 151936, 5120,  17408, 40,    40,   8, 128, 40960,  1e-6, 1e6,   false, {151645, 151643}},
    {"qwen3-32b",     kQwen3, 151936, 5120,  25600, 64,    64,   8, 128, 40960,  1e-6, 1e6,   false, {151645, 151643}},
    {"qwen2.5-0.5b",  kQwen2, 151936, 896,   4864,  24,    14,   2, 64,  32768,  1e-6, 1e6,   true,  {151643, -1}},
    {"qwen2.5-1.5b",  kQwen2, 151936, 1536,  8960,  28,    12,   2, 128, 131072, 1e-6, 1e6,   true,  {151643, -1}},
    {"qwen2.5-7b",    kQwen2, 152064, 3584,  18944, 28,    28,   4, 128, 131072, 1e-6, 1e6,   false, {151643, -1}},
    {"llama3-8b",     kLlama, 128256, 4096,  14336, 32,    32,   8, 128, 8192,   1e-5, 5e5,   false, {128001, -1}},
    {"llama3.2-1b",   kLlama, 128256, 2048,  8192,  16,    32,   8, 64,  131072, 1e-5, 5e5,   true,  {128001, -1}},
    {"smollm2-135m",  kLlama, 49152,  576,   1536,  30,    9,    3, 64,  8192,   1e-5, 1e5,   true,  {0, -1}},
}};
// clang-format on

RopeConfig rope_of(const NamedConfig& named) {
  RopeConfig rope;
  rope.theta = named.rope_theta;
  if (named.name == "llama3.2-1b") {
    rope.type = RopeType::kLlama3;
    rope.factor = 32;
    rope.original_max_position_embeddings = 8192;
    rope.low_freq_factor = 1;
    rope.high_freq_factor = 4;
  }
  return rope;
}

ModelConfig expand(const NamedConfig& named) {
  ModelConfig c;
  c.architecture = named.architecture;
  c.vocab_size = named.vocab_size;
  c.hidden_size = named.hidden_size;
  c.intermediate_size = named.intermediate_size;
  c.num_hidden_layers = named.num_hidden_layers;
  c.num_attention_heads = named.num_attention_heads;
  c.num_key_value_heads = named.num_key_value_heads;
  c.head_dim = named.head_dim;
  c.max_position_embeddings = named.max_position_embeddings;
  c.rms_norm_eps = named.rms_norm_eps;
  c.rope = rope_of(named);
  c.tie_word_embeddings = named.tie_word_embeddings;
  c.qkv_bias = named.architecture == Architecture::kQwen2;
  c.qk_norm = named.architecture == Architecture::kQwen3;
  for (const int32_t id : named.eos_token_ids) {
    if (id >= 0) c.eos_token_ids.push_back(id);
  }
  return c;
}

}  // namespace

std::optional<ModelConfig> named_model_config(std::string_view name) {
  for (const NamedConfig& named : kConfigs) {
    if (named.name == name) return expand(named);
  }
  return std::nullopt;
}

std::vector<std::string> model_config_names() {
  std::vector<std::string> names;
  for (const NamedConfig& named : kConfigs) names.emplace_back(named.name);
  return names;
}

}  // namespace llm
