#include "model/model_config.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/files.h"
#include "io/config_reader.h"
#include "model/quant_config_parse.h"
#include "model/rope_parse.h"

namespace llm {
namespace {

struct ArchitectureNames {
  Architecture architecture;
  std::string_view class_name;
  std::string_view model_type;
};

constexpr std::array<ArchitectureNames, 4> kArchitectures = {{
    {Architecture::kQwen3, "Qwen3ForCausalLM", "qwen3"},
    {Architecture::kQwen3Moe, "Qwen3MoeForCausalLM", "qwen3_moe"},
    {Architecture::kQwen2, "Qwen2ForCausalLM", "qwen2"},
    {Architecture::kLlama, "LlamaForCausalLM", "llama"},
}};

// Far above any published model, low enough that no product of them overflows 64 bits.
constexpr int64_t kMaxVocab = int64_t{1} << 22;
constexpr int64_t kMaxWidth = int64_t{1} << 18;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxExperts = 4096;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

constexpr std::string_view kSupported =
    "Qwen3ForCausalLM, Qwen3MoeForCausalLM, Qwen2ForCausalLM or LlamaForCausalLM";

/// From `architectures`, else from `model_type`; where both are set they must agree.
Architecture parse_architecture(const ConfigReader& config) {
  std::optional<std::string> class_name;
  if (const JsonValue* list = config.find("architectures")) {
    if (!list->is_array() || list->array.size() != 1 || !list->array[0].is_string()) {
      config.refuse_value("architectures", *list, "a list of one name");
    }
    class_name = list->array[0].string;
  }
  const std::optional<std::string> model_type = config.string("model_type");
  if (!class_name && !model_type) {
    refuse("{}: neither \"architectures\" nor \"model_type\" says what model this is",
           config.origin());
  }
  for (const ArchitectureNames& names : kArchitectures) {
    if (class_name ? *class_name != names.class_name : *model_type != names.model_type) continue;
    if (model_type && *model_type != names.model_type) {
      refuse("{}: \"model_type\" is \"{}\", which doesn't go with {}", config.origin(),
             printable(*model_type), names.class_name);
    }
    return names.architecture;
  }
  refuse("{}: {} \"{}\" is not supported; expected {}", config.origin(),
         class_name ? "the architecture" : "the model_type",
         printable(class_name ? *class_name : *model_type), kSupported);
}

/// Attention over a window, or other kinds of layers, would give other numbers.
void refuse_other_layers(const ConfigReader& config, Architecture architecture) {
  if (const JsonValue* types = config.find("layer_types")) {
    if (!types->is_array()) config.refuse_value("layer_types", *types, "a list of names");
    for (const JsonValue& type : types->array) {
      if (!type.is_string() || type.string != "full_attention") {
        config.refuse_value("layer_types", type, "\"full_attention\" for every layer");
      }
    }
  }
  // Only Qwen's classes know the key. They take a window of 4096 where none is given.
  if (architecture != Architecture::kLlama && !config.is_null("sliding_window") &&
      config.boolean("use_sliding_window").value_or(false)) {
    refuse("{}: \"use_sliding_window\" is true: sliding-window attention is not supported",
           config.origin());
  }
  if (const JsonValue* rotary = config.find("partial_rotary_factor")) {
    if (!rotary->is_number() || rotary->number != 1.0) {
      config.refuse_value("partial_rotary_factor", *rotary, "1");
    }
  }
  if (architecture == Architecture::kQwen3Moe) return;
  for (const char* key : {"num_experts", "num_local_experts"}) {
    const JsonValue* experts = config.find(key);
    if (experts != nullptr && !(experts->is_integer() && experts->integer == 0)) {
      config.refuse_value(key, *experts, "a dense model, which this architecture is");
    }
  }
}

void parse_attention_shape(const ConfigReader& config, ModelConfig& c) {
  c.num_attention_heads = config.required_integer("num_attention_heads", 1, kMaxHeads);
  c.num_key_value_heads =
      config.integer("num_key_value_heads", 1, kMaxHeads).value_or(c.num_attention_heads);
  if (c.num_attention_heads % c.num_key_value_heads != 0) {
    refuse("{}: \"num_attention_heads\" {} is not a multiple of \"num_key_value_heads\" {}",
           config.origin(), c.num_attention_heads, c.num_key_value_heads);
  }
  if (const auto head_dim = config.integer("head_dim", 2, kMaxHeadDim)) {
    c.head_dim = *head_dim;
  } else if (c.architecture == Architecture::kQwen3) {
    c.head_dim = 128;  // the class's default, whatever the other numbers are
  } else if (c.hidden_size % c.num_attention_heads != 0) {
    refuse(
        "{}: no \"head_dim\", and \"hidden_size\" {} is not a multiple of "
        "\"num_attention_heads\" {}",
        config.origin(), c.hidden_size, c.num_attention_heads);
  } else {
    c.head_dim = c.hidden_size / c.num_attention_heads;
  }
  if (c.head_dim % 2 != 0 || c.head_dim > kMaxHeadDim) {
    refuse(
        "{}: \"head_dim\" is {}, expected an even number up to {} (rotary embedding turns pairs)",
        config.origin(), c.head_dim, kMaxHeadDim);
  }
}

/// Qwen3Moe's experts. transformers 5 spells num_experts as num_local_experts.
MoeConfig parse_moe(const ConfigReader& config, int64_t num_hidden_layers) {
  MoeConfig moe;
  const char* key = config.has("num_experts") ? "num_experts" : "num_local_experts";
  moe.num_experts = config.required_integer(key, 0, kMaxExperts);
  if (moe.num_experts > 0) {
    moe.num_experts_per_tok = config.required_integer("num_experts_per_tok", 1, moe.num_experts);
    moe.moe_intermediate_size = config.required_integer("moe_intermediate_size", 1, kMaxWidth);
  }
  moe.norm_topk_prob = config.boolean("norm_topk_prob").value_or(false);
  moe.decoder_sparse_step = config.integer("decoder_sparse_step", 1, kMaxLayers).value_or(1);
  if (const JsonValue* layers = config.find("mlp_only_layers")) {
    if (!layers->is_array()) config.refuse_value("mlp_only_layers", *layers, "a list of layers");
    for (const JsonValue& layer : layers->array) {
      if (!layer.is_integer() || layer.integer < 0 || layer.integer >= num_hidden_layers) {
        config.refuse_value("mlp_only_layers", layer, "numbers of layers");
      }
      moe.mlp_only_layers.push_back(layer.integer);
    }
  }
  return moe;
}

void parse_biases(const ConfigReader& config, ModelConfig& c) {
  const bool attention_bias = config.boolean("attention_bias").value_or(false);
  switch (c.architecture) {
    case Architecture::kQwen2:
      c.qkv_bias = true;
      break;
    case Architecture::kQwen3:
    case Architecture::kQwen3Moe:
      c.qkv_bias = c.o_bias = attention_bias;
      c.qk_norm = true;
      break;
    case Architecture::kLlama:
      c.qkv_bias = c.o_bias = attention_bias;
      c.mlp_bias = config.boolean("mlp_bias").value_or(false);
      break;
  }
}

}  // namespace

std::string_view name_of(Architecture architecture) {
  for (const ArchitectureNames& names : kArchitectures) {
    if (names.architecture == architecture) return names.class_name;
  }
  return "";
}

bool can_load(std::string_view model_type, std::string_view quant_method) {
  const bool known =
      std::any_of(kArchitectures.begin(), kArchitectures.end(),
                  [&](const ArchitectureNames& names) { return names.model_type == model_type; });
  return known && (quant_method.empty() || quant_method_from_name(quant_method));
}

bool MoeConfig::is_sparse(int64_t layer) const {
  return num_experts > 0 && (layer + 1) % decoder_sparse_step == 0 &&
         std::find(mlp_only_layers.begin(), mlp_only_layers.end(), layer) == mlp_only_layers.end();
}

int64_t ModelConfig::num_parameters() const {
  const int64_t qkv = (q_size() + 2 * kv_size()) * (hidden_size + (qkv_bias ? 1 : 0));
  const int64_t o = q_size() * hidden_size + (o_bias ? hidden_size : 0);
  const int64_t mlp =
      3 * hidden_size * intermediate_size + (mlp_bias ? 2 * intermediate_size + hidden_size : 0);
  const int64_t norms = 2 * hidden_size + (qk_norm ? 2 * head_dim : 0);
  int64_t mlps = num_hidden_layers * mlp;
  for (int64_t i = 0; moe && i < num_hidden_layers; ++i) {
    if (!moe->is_sparse(i)) continue;
    mlps += moe->num_experts * (3 * moe->moe_intermediate_size + 1) * hidden_size - mlp;
  }
  const int64_t embeddings = (tie_word_embeddings ? 1 : 2) * vocab_size * hidden_size;
  return embeddings + num_hidden_layers * (qkv + o + norms) + mlps + hidden_size;
}

ModelConfig parse_model_config(std::string_view json, const std::string& origin) {
  const JsonValue root = parse_json(json, origin);
  const ConfigReader config(root, origin);
  ModelConfig c;
  c.architecture = parse_architecture(config);
  c.quantization = parse_quant_config(config);
  refuse_other_layers(config, c.architecture);
  if (const auto act = config.string("hidden_act"); act && *act != "silu" && *act != "swish") {
    refuse("{}: \"hidden_act\" is \"{}\", expected \"silu\"", origin, printable(*act));
  }
  c.vocab_size = config.required_integer("vocab_size", 1, kMaxVocab);
  c.hidden_size = config.required_integer("hidden_size", 1, kMaxWidth);
  c.intermediate_size = config.required_integer("intermediate_size", 1, kMaxWidth);
  c.num_hidden_layers = config.required_integer("num_hidden_layers", 1, kMaxLayers);
  c.max_position_embeddings = config.required_integer("max_position_embeddings", 1, kMaxPositions);
  parse_attention_shape(config, c);
  parse_biases(config, c);
  if (c.architecture == Architecture::kQwen3Moe) c.moe = parse_moe(config, c.num_hidden_layers);
  c.rms_norm_eps = config.number("rms_norm_eps", 1e-12, 0.1).value_or(1e-6);
  c.tie_word_embeddings = config.boolean("tie_word_embeddings").value_or(false);
  c.eos_token_ids = config.token_ids("eos_token_id");
  c.rope = parse_rope(config, c.max_position_embeddings);
  return c;
}

ModelConfig load_model_config(const std::filesystem::path& model_dir) {
  const std::filesystem::path path = model_dir / "config.json";
  if (is_folder(model_dir) && !is_listed(path)) {
    refuse(
        "{}: there is no config.json; a model folder holds config.json, tokenizer.json and "
        "model.safetensors",
        model_dir.string());
  }
  return parse_model_config(read_text_file(path, 16 << 20), path.string());
}

}  // namespace llm
