// The decoder's tensors, and which slot each goes into.
#include "model/weights.h"

#include <fmt/format.h>

#include <utility>

#include "base/files.h"
#include "model/weight_source.h"

namespace llm {
namespace {

class Assembler {
 public:
  Assembler(const ModelConfig& config, WeightSource& source) : config_(config), source_(source) {}

  DecoderWeights run() {
    const ModelConfig& c = config_;
    DecoderWeights w;
    const auto [table, head] =
        source_.embeddings(c.vocab_size, c.hidden_size, c.tie_word_embeddings);
    w.embed_tokens.weight = table;
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) w.layers.push_back(layer(i));
    w.norm = norm("model.", "norm", c.hidden_size);
    w.lm_head = Linear{"lm_head", {LinearPart{"lm_head", head, nullptr}}, c.hidden_size};
    return w;
  }

 private:
  DecoderLayer layer(int64_t i) {
    const ModelConfig& c = config_;
    const std::string prefix = fmt::format("model.layers.{}.", i);
    const std::string attn = prefix + "self_attn.";
    const std::string mlp = prefix + "mlp.";
    DecoderLayer layer;
    layer.input_layernorm = norm(prefix, "input_layernorm", c.hidden_size);
    layer.qkv_proj = {"qkv_proj",
                      {part(attn, "q_proj", c.q_size(), c.hidden_size, c.qkv_bias),
                       part(attn, "k_proj", c.kv_size(), c.hidden_size, c.qkv_bias),
                       part(attn, "v_proj", c.kv_size(), c.hidden_size, c.qkv_bias)},
                      c.hidden_size};
    if (c.qk_norm) {
      layer.q_norm = norm(attn, "q_norm", c.head_dim);
      layer.k_norm = norm(attn, "k_norm", c.head_dim);
    }
    layer.o_proj = {
        "o_proj", {part(attn, "o_proj", c.hidden_size, c.q_size(), c.o_bias)}, c.q_size()};
    layer.post_attention_layernorm = norm(prefix, "post_attention_layernorm", c.hidden_size);
    layer.gate_up_proj = {"gate_up_proj",
                          {part(mlp, "gate_proj", c.intermediate_size, c.hidden_size, c.mlp_bias),
                           part(mlp, "up_proj", c.intermediate_size, c.hidden_size, c.mlp_bias)},
                          c.hidden_size};
    layer.down_proj = {"down_proj",
                       {part(mlp, "down_proj", c.hidden_size, c.intermediate_size, c.mlp_bias)},
                       c.intermediate_size};
    return layer;
  }

  LinearPart part(const std::string& prefix, const char* name, int64_t rows, int64_t cols,
                  bool bias) {
    LinearPart part;
    part.name = name;
    part.weight = source_.matrix(prefix + name + ".weight", rows, cols);
    if (bias) part.bias = source_.vector(prefix + name + ".bias", rows);
    return part;
  }

  Norm norm(const std::string& prefix, const char* name, int64_t size) {
    return {name, source_.vector(prefix + name + ".weight", size), size,
            static_cast<float>(config_.rms_norm_eps)};
  }

  const ModelConfig& config_;
  WeightSource& source_;
};

}  // namespace

DecoderWeights assemble_weights(const ModelConfig& config, WeightSource& source) {
  return Assembler(config, source).run();
}

void place_weights(DecoderWeights& weights, Backend& backend,
                   const std::function<void(int64_t)>& progress) {
  if (!backend.copies_weights()) return;
  int64_t done = 0;
  const auto release = [&](const ConstTensor& host) {
    done += host.bytes();
    if (progress) progress(done);
    if (weights.mapped) release_mapped_pages(host.data, host.bytes());
  };
  const auto place = [&](Linear& linear) {
    const std::vector<LinearPart> host = linear.parts;
    backend.place(linear);
    for (const LinearPart& part : host) release(part.weight);
  };
  const ConstTensor table = weights.embed_tokens.weight;
  backend.place(weights.embed_tokens);
  release(table);
  for (DecoderLayer& layer : weights.layers) {
    backend.place(layer.input_layernorm);
    place(layer.qkv_proj);
    if (layer.q_norm) backend.place(*layer.q_norm);
    if (layer.k_norm) backend.place(*layer.k_norm);
    place(layer.o_proj);
    backend.place(layer.post_attention_layernorm);
    place(layer.gate_up_proj);
    place(layer.down_proj);
  }
  backend.place(weights.norm);
  LinearPart& head = weights.lm_head.parts[0];
  if (head.weight.data == table.data) {
    head.weight = weights.embed_tokens.weight;  // tied: one matrix serves both
  } else {
    place(weights.lm_head);
  }
  backend.finish();
  weights.storage.clear();
}

int64_t num_vector_values(const ModelConfig& c) {
  const int64_t norms = 2 * c.hidden_size + (c.qk_norm ? 2 * c.head_dim : 0);
  const int64_t biases = (c.qkv_bias ? c.q_size() + 2 * c.kv_size() : 0) +
                         (c.o_bias ? c.hidden_size : 0) +
                         (c.mlp_bias ? 2 * c.intermediate_size + c.hidden_size : 0);
  return c.num_hidden_layers * (norms + biases) + c.hidden_size;
}

}  // namespace llm
