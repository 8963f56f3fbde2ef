// The decoder's tensors, and which slot each goes into.
#include "model/weights.h"

#include <fmt/format.h>

#include <utility>

#include "base/files.h"
#include "model/weight_source.h"
#include "quant/stored_matrix.h"

namespace llm {
namespace {

class Assembler {
 public:
  Assembler(const ModelConfig& config, WeightSource& source) : config_(config), source_(source) {}

  DecoderWeights run() {
    const ModelConfig& c = config_;
    DecoderWeights w;
    const auto [table, head, shared] =
        source_.embeddings(c.vocab_size, c.hidden_size, c.tie_word_embeddings);
    w.embed_tokens = {table.weight, table.stored};
    w.tied = shared;
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) w.layers.push_back(layer(i));
    w.norm = norm("model.", "norm", c.hidden_size);
    w.lm_head = Linear{
        "lm_head", {LinearPart{"lm_head", head.weight, nullptr, head.stored}}, c.hidden_size};
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
    if (c.moe && c.moe->is_sparse(i)) {
      layer.moe = moe(mlp);
    } else {
      Expert dense = mlp_of(mlp, c.intermediate_size);
      layer.gate_up_proj = std::move(dense.gate_up_proj);
      layer.down_proj = std::move(dense.down_proj);
    }
    return layer;
  }

  /// The three matrices of an MLP, a layer's or an expert's.
  Expert mlp_of(const std::string& prefix, int64_t intermediate_size) {
    const ModelConfig& c = config_;
    return {{"gate_up_proj",
             {part(prefix, "gate_proj", intermediate_size, c.hidden_size, c.mlp_bias),
              part(prefix, "up_proj", intermediate_size, c.hidden_size, c.mlp_bias)},
             c.hidden_size},
            {"down_proj",
             {part(prefix, "down_proj", c.hidden_size, intermediate_size, c.mlp_bias)},
             intermediate_size}};
  }

  Moe moe(const std::string& prefix) {
    const MoeConfig& c = *config_.moe;
    Moe moe;
    moe.gate = {"gate",
                {part(prefix, "gate", c.num_experts, config_.hidden_size, false)},
                config_.hidden_size};
    for (int64_t e = 0; e < c.num_experts; ++e) {
      moe.experts.push_back(
          mlp_of(fmt::format("{}experts.{}.", prefix, e), c.moe_intermediate_size));
    }
    moe.top_k = c.num_experts_per_tok;
    moe.norm_topk_prob = c.norm_topk_prob;
    return moe;
  }

  LinearPart part(const std::string& prefix, const char* name, int64_t rows, int64_t cols,
                  bool bias) {
    const auto [weight, stored] = source_.matrix(prefix + name, rows, cols);
    LinearPart part{name, weight, nullptr, stored};
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

/// Packs and places one module after the other.
class Placer {
 public:
  Placer(DecoderWeights& weights, Backend& backend, ThreadPool& pool,
         const std::function<void(int64_t)>& progress)
      : weights_(weights), backend_(backend), pool_(pool), progress_(progress) {}

  void run() {
    place_embedding();
    for (DecoderLayer& layer : weights_.layers) {
      backend_.place(layer.input_layernorm);
      place(layer.qkv_proj);
      if (layer.q_norm) backend_.place(*layer.q_norm);
      if (layer.k_norm) backend_.place(*layer.k_norm);
      place(layer.o_proj);
      backend_.place(layer.post_attention_layernorm);
      if (layer.moe) {
        place(*layer.moe);
      } else {
        place(layer.gate_up_proj);
        place(layer.down_proj);
      }
    }
    backend_.place(weights_.norm);
    if (weights_.tied) {
      LinearPart& head = weights_.lm_head.parts[0];
      head.weight = weights_.embed_tokens.weight;
      head.stored = nullptr;
    } else {
      place(weights_.lm_head);
    }
    backend_.finish();
    if (backend_.copies_weights()) weights_.storage.clear();
  }

 private:
  void place_embedding() {
    Embedding& table = weights_.embed_tokens;
    std::vector<std::shared_ptr<Buffer>> packed;
    pack(table.weight, table.stored, packed);
    const Weight host = table.weight;
    backend_.place(table);
    done(host);
    keep(packed);
  }

  void place(Linear& linear) {
    std::vector<std::shared_ptr<Buffer>> packed;
    for (LinearPart& part : linear.parts) pack(part.weight, part.stored, packed);
    const std::vector<LinearPart> host = linear.parts;
    backend_.place(linear);
    for (const LinearPart& part : host) done(part.weight);
    keep(packed);
  }

  void place(Moe& moe) {
    place(moe.gate);
    for (Expert& expert : moe.experts) {
      place(expert.gate_up_proj);
      place(expert.down_proj);
    }
  }

  void pack(Weight& weight, std::shared_ptr<const StoredMatrix>& stored,
            std::vector<std::shared_ptr<Buffer>>& packed) {
    if (stored == nullptr) return;
    packed.push_back(std::make_shared<Buffer>(stored->shape.bytes()));
    weight = llm::pack(*stored, packed.back()->data(), pool_);
    for (const ConstTensor& tensor : stored->tensors()) release(tensor);
    stored = nullptr;
    packs_ = true;
  }

  /// A matrix is where the backend wants it.
  void done(const Weight& host) {
    bytes_ += host.bytes();
    if (progress_ && (backend_.copies_weights() || packs_)) progress_(bytes_);
    if (backend_.copies_weights() && !host.is_packed()) release(host.plain());
  }

  void release(const ConstTensor& tensor) {
    if (weights_.mapped) release_mapped_pages(tensor.data, tensor.bytes());
  }

  void keep(const std::vector<std::shared_ptr<Buffer>>& packed) {
    if (backend_.copies_weights()) return;
    weights_.storage.insert(weights_.storage.end(), packed.begin(), packed.end());
  }

  DecoderWeights& weights_;
  Backend& backend_;
  ThreadPool& pool_;
  const std::function<void(int64_t)>& progress_;
  int64_t bytes_ = 0;
  bool packs_ = false;
};

}  // namespace

DecoderWeights assemble_weights(const ModelConfig& config, WeightSource& source) {
  return Assembler(config, source).run();
}

void place_weights(DecoderWeights& weights, Backend& backend, ThreadPool& pool,
                   const std::function<void(int64_t)>& progress) {
  Placer(weights, backend, pool, progress).run();
}

int64_t num_vector_values(const ModelConfig& c) {
  const int64_t norms = 2 * c.hidden_size + (c.qk_norm ? 2 * c.head_dim : 0);
  const int64_t biases = (c.qkv_bias ? c.q_size() + 2 * c.kv_size() : 0) +
                         (c.o_bias ? c.hidden_size : 0) +
                         (c.mlp_bias ? 2 * c.intermediate_size + c.hidden_size : 0);
  return c.num_hidden_layers * (norms + biases) + c.hidden_size;
}

}  // namespace llm
