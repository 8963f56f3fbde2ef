// Many rows: a step of 64 requests, prompts, the head, and what chooses the next tokens.
#include <algorithm>

#include "cuda/measure/products.h"
#include "cuda/measure/sections.h"
#include "cuda/sample_rows.h"
#include "engine/estimate.h"

namespace llm::measure {
namespace {

constexpr const char* kModels[] = {"qwen3-0.6b", "qwen3-8b"};

void measure_batch_step(Lab& lab, const char* model) {
  const int batch = lab.small() ? 10 : 64;
  const int context = lab.small() ? 20 : 1024;
  const ModelConfig config = config_of(model, lab.small());
  const std::string parameters = fmt::format("context={} batch={} overlap", context, batch);
  if (!lab.has_room(ModelStep::device_bytes(config, batch, context),
                    fmt::format("{} {}", model, parameters))) {
    return;
  }
  const double bytes = estimate_decode(config, batch, context, DType::kBF16).step.bytes();
  ModelStep step(lab, config, batch, context);
  lab.time_graph({fmt::format("{} step", model), parameters, bytes, Unit::kGbs}, 1, [&](int) {
    step.queue({"overlap", true, false}, lab.stream());
  });
}

std::vector<int> prompt_lengths(bool small) {
  return small ? std::vector{70} : std::vector{512, 2048, 8192};
}

void measure_prompt_products(Lab& lab, const char* model) {
  const std::vector<ProductShape> shapes = products_of(config_of(model, lab.small()));
  const ProductShape& gate_up = shapes[2];
  const ProductShape& head = shapes.back();
  const int64_t rows = prompt_lengths(lab.small()).back();
  const int64_t weight_bytes =
      std::max(lab.copies(head.weight_bytes()) * head.weight_bytes(), gate_up.weight_bytes());
  const int64_t results = std::max<int64_t>(rows * gate_up.n, int64_t{kMaxSmallRows} * head.n);
  if (!lab.has_room(weight_bytes + 4 * results + 10 * rows * gate_up.k,
                    fmt::format("{} products", model))) {
    return;
  }
  Products products(lab, weight_bytes, rows * gate_up.k, results);
  for (const int m : prompt_lengths(lab.small())) {
    products.time_cublaslt(model, gate_up, m, Unit::kTflops);
    products.time_gemm(model, gate_up, m);
  }
  for (const int m : {1, lab.small() ? 10 : 64}) products.time_head(model, head, m);
}

/// Of one layer and one prompt; the FLOP are those of the pairs that a causal mask leaves.
void measure_prompt_attention(Lab& lab, const char* model) {
  const ModelConfig config = config_of(model, lab.small());
  const AttentionShape shape = {static_cast<int>(config.num_attention_heads),
                                static_cast<int>(config.num_key_value_heads),
                                static_cast<int>(config.head_dim), KvType::kBF16, 1};
  for (const int tokens : prompt_lengths(lab.small())) {
    CachedAttention attention(lab, shape, 1, tokens, Rows::kPrompt);
    const DeviceMemory qkv = lab.memory(int64_t{tokens} * shape.qkv_width() * 4, Fill::kF32);
    const DeviceMemory out = lab.memory(int64_t{tokens} * shape.out_width() * 2, Fill::kBF16);
    const std::string parameters =
        fmt::format("tokens={} heads={}/{}", tokens, shape.num_heads, shape.num_kv_heads);
    const auto* projected = reinterpret_cast<const float*>(qkv.data());
    lab.time_queued({fmt::format("{} append", model), parameters, 0, Unit::kUs},
                    [&] { attention.append_prompt(0, projected, lab.stream()); });
    const double flop = 2.0 * tokens * (tokens + 1.0) * shape.out_width();
    lab.time_queued(
        {fmt::format("{} prompt attention", model), parameters, flop, Unit::kTflops},
        [&] { attention.attend_prompt(0, reinterpret_cast<bf16*>(out.data()), lab.stream()); });
  }
}

struct Choice {
  const char* name;
  SamplingParams params;
};

/// Logits in [-1, 1) at temperature 0.1: e^20 from the least to the most probable.
std::vector<Choice> choices() {
  SamplingParams top_k{.temperature = 0.1f, .top_k = 20};
  SamplingParams top_p{.temperature = 0.1f, .top_p = 0.95f};
  return {{"greedy", {}}, {"top-k 20", top_k}, {"top-p 0.95", top_p}};
}

void measure_sampling(Lab& lab, const Choice& choice, int rows, int width) {
  std::vector<IdCount> penalised;
  std::vector<DeviceSampleRow> host;
  for (int row = 0; row < rows; ++row) {
    host.push_back(device_sample_row({.params = &choice.params,
                                      .prompt_ids = {},
                                      .output_ids = {},
                                      .num_ids = width,
                                      .logits_row = row},
                                     penalised));
  }
  const DeviceMemory logits = lab.memory(int64_t{rows} * width * 4, Fill::kF32);
  const int64_t bytes = std::ssize(host) * static_cast<int64_t>(sizeof(DeviceSampleRow));
  const DeviceMemory device_rows = lab.zeros(bytes);
  LLM_CUDA(cudaMemcpyAsync(device_rows.data(), host.data(), static_cast<size_t>(bytes),
                           cudaMemcpyHostToDevice, lab.stream()));
  LLM_CUDA(cudaStreamSynchronize(lab.stream()));
  const DeviceMemory sampled = lab.zeros(rows * static_cast<int64_t>(sizeof(SampledId)));
  const DeviceMemory scratch = lab.zeros(static_cast<int64_t>(sample_scratch_bytes(rows, width)));
  SampleArgs args;
  args.sampled = reinterpret_cast<SampledId*>(sampled.data());
  args.logits = reinterpret_cast<const float*>(logits.data());
  args.rows = reinterpret_cast<const DeviceSampleRow*>(device_rows.data());
  args.num_rows = rows;
  args.width = width;
  args.scratch = scratch.data();
  lab.time_graph(
      {"sampling", fmt::format("rows={} ids={} {}", rows, width, choice.name), 0, Unit::kUs},
      lab.small() ? 1 : 20, [&](int) { launch_sample(args, lab.stream()); });
}

}  // namespace

void measure_many(Lab& lab) {
  for (const char* model : kModels) measure_batch_step(lab, model);
  for (const char* model : kModels) measure_prompt_products(lab, model);
  for (const char* model : kModels) measure_prompt_attention(lab, model);
  for (const Choice& choice : choices()) {
    for (const int rows : {1, lab.small() ? 2 : 64}) {
      measure_sampling(lab, choice, rows, lab.small() ? 512 : 151936);
    }
  }
}

}  // namespace llm::measure
