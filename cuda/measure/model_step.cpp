#include "cuda/measure/model_step.h"

#include <algorithm>

#include "base/error.h"
#include "cuda/sample_rows.h"

namespace llm::measure {
namespace {

// As the backend bounds what attention brings into L2.
constexpr int64_t kMaxPrefetchBytes = int64_t{16} << 20;
constexpr size_t kProductsPerLayer = 4;

AttentionShape attention_of(const ModelConfig& c) {
  return {static_cast<int>(c.num_attention_heads), static_cast<int>(c.num_key_value_heads),
          static_cast<int>(c.head_dim), KvType::kBF16, static_cast<int>(c.num_hidden_layers)};
}

int64_t weight_bytes(const ModelConfig& config) {
  int64_t layer = 0;
  const std::vector<ProductShape> products = products_of(config);
  for (size_t i = 0; i < kProductsPerLayer; ++i) layer += products[i].weight_bytes();
  const int64_t head = products.back().weight_bytes();
  return config.num_hidden_layers * layer + (config.tie_word_embeddings ? head : 2 * head);
}

template <typename T>
T* as(const DeviceMemory& memory) {
  return reinterpret_cast<T*>(memory.data());
}

}  // namespace

ModelConfig config_of(const std::string& name, bool small) {
  const std::optional<ModelConfig> found = named_model_config(name);
  LLM_CHECK(found.has_value(), "no config {}", name);
  ModelConfig config = *found;
  if (!small) return config;
  config.num_hidden_layers = 1;
  config.hidden_size /= 32;
  config.intermediate_size /= 32;
  config.vocab_size = 512;
  config.num_attention_heads /= config.num_key_value_heads;
  config.num_key_value_heads = 1;
  config.head_dim = 32;
  return config;
}

std::vector<ProductShape> products_of(const ModelConfig& config) {
  const int hidden = static_cast<int>(config.hidden_size);
  const int inner = static_cast<int>(config.intermediate_size);
  const int q = static_cast<int>(config.q_size());
  return {{"qkv", Epilogue::kStore, q + 2 * static_cast<int>(config.kv_size()), hidden},
          {"o", Epilogue::kAdd, hidden, q},
          {"gate_up", Epilogue::kSiluMul, 2 * inner, hidden},
          {"down", Epilogue::kAdd, hidden, inner},
          {"head", Epilogue::kStore, static_cast<int>(config.vocab_size), hidden}};
}

int64_t ModelStep::device_bytes(const ModelConfig& config, int64_t batch, int64_t context) {
  const AttentionShape attention = attention_of(config);
  return weight_bytes(config) + attention.layers * attention.layer_bytes(batch, context);
}

ModelStep::ModelStep(Lab& lab, const ModelConfig& config, int64_t batch, int64_t context)
    : config_(config), attention_(lab, attention_of(config), batch, context, Rows::kDecode) {
  rows_ = attention_.rows();
  weights_ = lab.memory(weight_bytes(config), Fill::kBF16);
  norm_ = lab.memory(config.hidden_size * 4, Fill::kF32);
  const std::byte* at = weights_.data();
  const auto add = [&](const ProductShape& shape, std::byte* scratch) {
    products_.push_back({shape, reinterpret_cast<const bf16*>(at), scratch});
    at += shape.weight_bytes();
  };
  const std::vector<ProductShape> shapes = products_of(config);
  for (const ProductShape& shape : shapes) {
    const LinearWeights weights{nullptr, nullptr, shape.n, shape.k};
    scratch_.push_back(lab.zeros(static_cast<int64_t>(small_linear_scratch_bytes(weights))));
  }
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    for (size_t i = 0; i < kProductsPerLayer; ++i) add(shapes[i], scratch_[i].data());
  }
  table_ = reinterpret_cast<const bf16*>(at);
  if (!config.tie_word_embeddings) at += shapes.back().weight_bytes();
  add(shapes.back(), scratch_.back().data());

  const int64_t rows = rows_;
  hidden_ = lab.memory(rows * config.hidden_size * 4, Fill::kF32);
  qkv_ = lab.memory(rows * shapes[0].n * 4, Fill::kF32);
  attended_ = lab.memory(rows * config.q_size() * 2, Fill::kBF16);
  gated_ = lab.memory(rows * config.intermediate_size * 2, Fill::kBF16);
  normed_ = lab.memory(rows * config.hidden_size * 2, Fill::kBF16);
  logits_ = lab.memory(rows * config.vocab_size * 4, Fill::kF32);

  const SamplingParams greedy;
  std::vector<IdCount> penalised;
  const DeviceSampleRow row = device_sample_row(
      {.params = &greedy, .prompt_ids = {}, .output_ids = {}, .num_ids = config.vocab_size},
      penalised);
  std::vector<DeviceSampleRow> sample_rows(static_cast<size_t>(rows), row);
  for (size_t i = 0; i < sample_rows.size(); ++i)
    sample_rows[i].logits_row = static_cast<int64_t>(i);
  const size_t bytes = sample_rows.size() * sizeof(DeviceSampleRow);
  sample_rows_ = lab.zeros(static_cast<int64_t>(bytes));
  LLM_CUDA(cudaMemcpyAsync(sample_rows_.data(), sample_rows.data(), bytes, cudaMemcpyHostToDevice,
                           lab.stream()));
  sampled_ = lab.zeros(rows * static_cast<int64_t>(sizeof(SampledId)));
  sample_scratch_ = lab.zeros(
      static_cast<int64_t>(sample_scratch_bytes(rows_, static_cast<int>(config.vocab_size))));
  LLM_CUDA(cudaStreamSynchronize(lab.stream()));
}

void ModelStep::multiply(void* out, const Product& product, const bf16* x, const float* hidden,
                         Queue queue) {
  const LinearWeights weights{product.weight, nullptr, product.shape.n, product.shape.k};
  SmallOperand operand;
  operand.x = x;
  if (x == nullptr) {
    operand.normed = {hidden, nullptr, as<float>(norm_), 1e-6f};
    if (rows_ > fused_norm_rows(weights)) {
      launch_rms_norm(as<bf16>(normed_), operand.normed, rows_, weights.k, queue);
      operand.x = as<bf16>(normed_);
    }
  }
  launch_small_linear(out, product.shape.epilogue, operand, rows_, weights, product.scratch, queue);
}

void ModelStep::add_next_weights(MemoryRange (&next)[2], int64_t layer) const {
  int64_t left = kMaxPrefetchBytes;
  for (size_t i = 0; i < 2; ++i) {
    const Product& product = products_[static_cast<size_t>(layer) * kProductsPerLayer + 1 + i];
    const int64_t bytes = std::min(left, product.shape.weight_bytes());
    next[i] = {reinterpret_cast<const std::byte*>(product.weight), bytes};
    left -= bytes;
  }
}

void ModelStep::queue(const StepVariant& variant, cudaStream_t stream) {
  const Queue queue(stream, variant.overlaps);
  float* hidden = as<float>(hidden_);
  const StepArrays& arrays = attention_.arrays();
  launch_embed(hidden, table_, {arrays.input_ids, nullptr, arrays.known_ids}, rows_,
               static_cast<int>(config_.hidden_size), queue);
  for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    const Product* product = &products_[static_cast<size_t>(layer) * kProductsPerLayer];
    MemoryRange next[2];
    if (variant.prefetches) add_next_weights(next, layer);
    multiply(qkv_.data(), product[0], nullptr, hidden, queue);
    attention_.decode(static_cast<int>(layer), as<bf16>(attended_), as<float>(qkv_), next, queue);
    multiply(hidden, product[1], as<bf16>(attended_), nullptr, queue);
    multiply(gated_.data(), product[2], nullptr, hidden, queue);
    multiply(hidden, product[3], as<bf16>(gated_), nullptr, queue);
  }
  multiply(logits_.data(), products_.back(), nullptr, hidden, queue);
  SampleArgs sample;
  sample.sampled = as<SampledId>(sampled_);
  sample.logits = as<float>(logits_);
  sample.rows = as<DeviceSampleRow>(sample_rows_);
  sample.input_ids = arrays.known_ids;
  sample.num_rows = rows_;
  sample.width = static_cast<int>(config_.vocab_size);
  sample.scratch = sample_scratch_.data();
  launch_sample(sample, queue);
}

}  // namespace llm::measure
