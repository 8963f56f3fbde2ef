#include "checkpoint_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <random>

#include "io/json.h"
#include "io/safetensors_writer.h"
#include "model/weight_source.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

constexpr const char* kEmbedName = "model.embed_tokens.weight";
constexpr const char* kHeadName = "lm_head.weight";

/// Collects every tensor that the decoder asks for, filled and rounded.
class CollectingSource : public WeightSource {
 public:
  CollectingSource(const FillTensor& fill, DType dtype) : fill_(fill), dtype_(dtype) {}

  Matrix matrix(const std::string& module, int64_t rows, int64_t cols) override {
    return {add(module + ".weight", Shape{rows, cols}, cols), nullptr};
  }
  const float* vector(const std::string& name, int64_t size) override {
    add(name, Shape{size}, size);
    return nullptr;
  }
  Embeddings embeddings(int64_t vocab_size, int64_t hidden_size, bool tied) override {
    const Matrix table = matrix(kEmbedModule, vocab_size, hidden_size);
    return {table, tied ? table : matrix(kHeadModule, vocab_size, hidden_size), tied};
  }

  std::vector<NamedTensor>& tensors() { return tensors_; }

 private:
  ConstTensor add(const std::string& name, const Shape& shape, int64_t cols) {
    std::vector<float> values(static_cast<size_t>(shape.num_elements()));
    fill_(name, values, cols);
    buffers_.emplace_back(byte_size(dtype_, shape));
    const Tensor tensor = buffers_.back().tensor(dtype_, shape);
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype_ == DType::kF32) tensor.as<float>()[i] = values[i];
      if (dtype_ == DType::kF16) tensor.as<F16>()[i] = to_f16(values[i]);
      if (dtype_ == DType::kBF16) tensor.as<BF16>()[i] = to_bf16(values[i]);
    }
    tensors_.push_back({name, tensor});
    return tensor;
  }

  const FillTensor& fill_;
  DType dtype_;
  std::vector<Buffer> buffers_;
  std::vector<NamedTensor> tensors_;
};

std::string id_list(const std::vector<int32_t>& ids) {
  if (ids.empty()) return "null";
  return fmt::format("[{}]", fmt::join(ids, ", "));
}

std::string rope_json(const RopeConfig& rope, bool with_theta) {
  std::string json = "{";
  if (with_theta) json += fmt::format("\"rope_theta\": {}, ", rope.theta);
  switch (rope.type) {
    case RopeType::kDefault:
      return json + "\"rope_type\": \"default\"}";
    case RopeType::kLinear:
      return json + fmt::format("\"rope_type\": \"linear\", \"factor\": {}}}", rope.factor);
    case RopeType::kLlama3:
      return json + fmt::format(
                        "\"rope_type\": \"llama3\", \"factor\": {}, "
                        "\"original_max_position_embeddings\": {}, "
                        "\"low_freq_factor\": {}, \"high_freq_factor\": {}}}",
                        rope.factor, rope.original_max_position_embeddings, rope.low_freq_factor,
                        rope.high_freq_factor);
    case RopeType::kYarn:
      return json + fmt::format(
                        "\"rope_type\": \"yarn\", \"factor\": {}, "
                        "\"original_max_position_embeddings\": {}, "
                        "\"attention_factor\": {}}}",
                        rope.factor, rope.original_max_position_embeddings, rope.attention_factor);
  }
  return {};
}

std::string_view model_type_of(Architecture architecture) {
  switch (architecture) {
    case Architecture::kQwen3:
    case Architecture::kQwen3Moe:
      return "qwen3";
    case Architecture::kQwen2:
      return "qwen2";
    case Architecture::kLlama:
      return "llama";
  }
  return {};
}

/// Tensors dealt out in order, so that a layer's tensors lie in different shards.
void write_shards(const fs::path& dir, const std::vector<NamedTensor>& tensors, int num_shards) {
  std::string map;
  int64_t total = 0;
  for (int shard = 0; shard < num_shards; ++shard) {
    const std::string file = fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, num_shards);
    std::vector<NamedTensor> part;
    for (size_t i = static_cast<size_t>(shard); i < tensors.size();
         i += static_cast<size_t>(num_shards)) {
      part.push_back(tensors[i]);
      total += tensors[i].tensor.bytes();
      map += fmt::format("{}\n    {}: \"{}\"", map.empty() ? "" : ",", json_quote(tensors[i].name),
                         file);
    }
    write_safetensors(dir / file, part);
  }
  write_text(dir / "model.safetensors.index.json",
             fmt::format("{{\n  \"metadata\": {{\"total_size\": {}}},\n  \"weight_map\": {{{}\n  "
                         "}}\n}}\n",
                         total, map));
}

bool is_norm(const std::string& name) { return name.find("norm.weight") != std::string::npos; }

}  // namespace

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  LLM_CHECK(!file.fail(), "{}", path.string());
}

std::string config_json(const ModelConfig& c, const FolderOptions& options) {
  const bool old_style = options.old_style_config;
  std::string rope;
  if (old_style) {
    rope = fmt::format("\"rope_theta\": {}, \"rope_scaling\": {}, \"torch_dtype\": \"bfloat16\"",
                       c.rope.theta,
                       c.rope.type == RopeType::kDefault ? "null" : rope_json(c.rope, false));
  } else {
    rope = fmt::format("\"rope_parameters\": {}, \"dtype\": \"bfloat16\"", rope_json(c.rope, true));
  }
  return fmt::format(
      "{{\n  \"architectures\": [\"{}\"],\n  \"model_type\": \"{}\",\n  \"vocab_size\": {},\n"
      "  \"hidden_size\": {},\n  \"intermediate_size\": {},\n  \"num_hidden_layers\": {},\n"
      "  \"num_attention_heads\": {},\n  \"num_key_value_heads\": {},\n  \"head_dim\": {},\n"
      "  \"max_position_embeddings\": {},\n  \"rms_norm_eps\": {},\n"
      "  \"tie_word_embeddings\": {},\n  \"attention_bias\": {},\n  \"mlp_bias\": {},\n"
      "  \"hidden_act\": \"silu\",\n  \"eos_token_id\": {},\n  {}\n}}\n",
      name_of(c.architecture), model_type_of(c.architecture), c.vocab_size, c.hidden_size,
      c.intermediate_size, c.num_hidden_layers, c.num_attention_heads, c.num_key_value_heads,
      c.head_dim, c.max_position_embeddings, c.rms_norm_eps, c.tie_word_embeddings, c.o_bias,
      c.mlp_bias, id_list(options.config_eos), rope);
}

void write_checkpoint(const fs::path& dir, const ModelConfig& config, const FillTensor& fill,
                      const FolderOptions& options, DType dtype) {
  fs::create_directories(dir);
  CollectingSource source(fill, dtype);
  assemble_weights(config, source);
  std::vector<NamedTensor>& tensors = source.tensors();
  if (options.duplicate_head) {
    const auto table = std::find_if(tensors.begin(), tensors.end(),
                                    [](const NamedTensor& t) { return t.name == kEmbedName; });
    tensors.push_back({kHeadName, table->tensor});
  }
  if (options.num_shards > 1) {
    write_shards(dir, tensors, options.num_shards);
  } else {
    write_safetensors(dir / "model.safetensors", tensors);
  }
  write_text(dir / "config.json", config_json(config, options));
  write_text(dir / "generation_config.json",
             fmt::format("{{\"eos_token_id\": {}}}\n", id_list(options.generation_eos)));
  if (!options.tokenizer_json.empty()) {
    fs::remove(dir / "tokenizer.json");
    fs::create_symlink(fs::absolute(options.tokenizer_json), dir / "tokenizer.json");
  }
}

ModelConfig random2_config(const Random2Options& options) {
  ModelConfig c;
  c.architecture = Architecture::kQwen3;
  c.vocab_size = options.vocab_size;
  c.hidden_size = 64;
  c.intermediate_size = 96;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 32;
  c.max_position_embeddings = 40960;
  c.rms_norm_eps = 1e-6;
  c.rope.theta = 1e6;
  c.tie_word_embeddings = options.tie_word_embeddings;
  c.qk_norm = true;
  c.eos_token_ids = options.folder.config_eos;
  return c;
}

void write_random2(const fs::path& dir, const Random2Options& options) {
  std::mt19937_64 engine(options.seed);
  // Twelve uniforms: the same numbers on every machine, unlike std::normal_distribution.
  const auto normal = [&engine] {
    double sum = -6;
    for (int i = 0; i < 3; ++i) {
      const uint64_t bits = engine();
      for (int field = 0; field < 4; ++field) {
        sum += static_cast<double>((bits >> (16 * field)) & 0xffff) / 65535.0;
      }
    }
    return static_cast<float>(sum);
  };
  const auto fill = [&](const std::string& name, std::span<float> values, int64_t) {
    const float mean = is_norm(name) ? 1.0f : 0.0f;
    const float factor = name.ends_with("k_norm.weight") ? options.k_norm_factor : 1.0f;
    for (float& x : values) x = factor * (mean + options.standard_deviation * normal());
  };
  write_checkpoint(dir, random2_config(options), fill, options.folder);
}

void write_script(const fs::path& dir, std::span<const int32_t> chain,
                  const ScriptOptions& options) {
  std::map<int32_t, int64_t> place;  // token -> its one-hot dimension
  for (const int32_t id : chain) {
    LLM_CHECK(id >= 0 && id < options.vocab_size, "token {}", id);
    LLM_CHECK(place.emplace(id, static_cast<int64_t>(place.size())).second, "{} twice", id);
  }
  Random2Options random2;
  random2.vocab_size = options.vocab_size;
  random2.tie_word_embeddings = false;
  random2.folder = options.folder;
  ModelConfig config = random2_config(random2);
  const auto length = static_cast<int64_t>(chain.size());
  config.hidden_size = std::max<int64_t>(64, (length + 31) / 32 * 32);

  std::mt19937_64 engine(1);
  const auto fill = [&](const std::string& name, std::span<float> values, int64_t cols) {
    if (is_norm(name)) {
      std::fill(values.begin(), values.end(), 1.0f);
    } else if (name == kEmbedName) {
      for (const auto& [id, dim] : place) values[static_cast<size_t>(id * cols + dim)] = 1.0f;
    } else if (name == kHeadName) {
      // The norm turns the one-hot row into sqrt(hidden_size) >= 8, so the logit is 80 or more.
      for (size_t i = 0; i < chain.size(); ++i) {
        if (i + 1 == chain.size() && !options.loop) break;
        const int32_t next = chain[(i + 1) % chain.size()];
        values[static_cast<size_t>(next * cols) + i] = 10.0f;
      }
    } else if (name.find("o_proj") == std::string::npos &&
               name.find("down_proj") == std::string::npos) {
      for (float& x : values) x = static_cast<float>(engine() >> 40) * 0x1p-26f - 0.125f;
    }
  };
  write_checkpoint(dir, config, fill, options.folder);
}

}  // namespace llm
