#include "engine/estimate.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backend/cuda.h"
#include "backend/shape/shape_backend.h"
#include "base/error.h"
#include "engine/session.h"
#include "engine/stage_times.h"
#include "model/decoder.h"
#include "model/weights.h"

namespace llm {
namespace {

constexpr double kOperandBytes = 2;

/// One decode step of the real forward pass on the backend that does no arithmetic. The cache has
/// no memory, so the rows have no blocks.
std::vector<StageTotal> stages_of_step(const ModelConfig& config, int64_t batch, int64_t context,
                                       DType kv_dtype) {
  const auto backend = make_shape_backend();
  Decoder decoder(config, shape_weights(config), *backend, context);
  KvCache cache = decoder.make_cache(0, kv_dtype);
  const auto rows = static_cast<size_t>(batch);
  const std::vector<int32_t> input_ids(rows, 0);
  const std::vector<int32_t> positions(rows, static_cast<int32_t>(context - 1));
  const std::vector<int32_t> slots(rows, -1);
  const std::vector<int32_t> seq_lens(rows, static_cast<int32_t>(context));
  std::vector<int32_t> starts;
  for (int32_t i = 0; i <= batch; ++i) starts.push_back(i);
  const Batch step = {.input_ids = input_ids,
                      .positions = positions,
                      .slot_mapping = slots,
                      .query_start_loc = starts,
                      .seq_lens = seq_lens,
                      .block_tables = {},
                      .logits_indices = std::span(starts).first(rows),
                      .num_decode_rows = batch};
  StageTimes stages;
  backend->set_observer(&stages);
  const Tensor logits = decoder.forward(step, cache);
  SampleRow any;
  any.num_ids = config.vocab_size;
  backend->sample(logits, std::vector<SampleRow>(rows, any));
  backend->set_observer(nullptr);
  return stages.totals();
}

bool is_attention(const StageTotal& stage) { return stage.name == "attention"; }

StepCount count_step(const std::vector<StageTotal>& stages, int64_t batch) {
  StepCount step;
  int64_t launches = 0;
  for (const StageTotal& stage : stages) {
    const bool norm_apart = stage.name.starts_with("norm+") && batch > kCudaFusedNormRows;
    launches += stage.calls * (norm_apart ? 2 : 1);
    step.flop += stage.flop;
    (is_attention(stage) ? step.kv_bytes : step.weight_bytes) += stage.stream_bytes;
  }
  if (batch <= kCudaRowsAtOnce) step.launches = launches;
  return step;
}

/// A matrix product of every layer, or of the head.
struct Product {
  const char* name;
  const char* stage;  // that it is the only product of
  int64_t k = 0;      // inputs
  int64_t n = 0;      // outputs
  int64_t times = 0;
};

double flop_of(const std::vector<StageTotal>& stages, std::string_view name) {
  const auto found = std::find_if(stages.begin(), stages.end(),
                                  [&](const StageTotal& stage) { return stage.name == name; });
  LLM_CHECK(found != stages.end(), "no stage {}", name);
  return found->flop;
}

std::vector<OperationCount> count_operations(const std::vector<StageTotal>& stages,
                                             const ModelConfig& c, int64_t batch, int64_t context,
                                             DType kv_dtype) {
  const int64_t layers = c.num_hidden_layers;
  const std::array<Product, 5> products = {{
      {"qkv_proj", "norm+qkv_proj", c.hidden_size, c.q_size() + 2 * c.kv_size(), layers},
      {"o_proj", "o_proj+add", c.q_size(), c.hidden_size, layers},
      {"gate_up_proj", "norm+gate_up_proj+silu", c.hidden_size, 2 * c.intermediate_size, layers},
      {"down_proj", "down_proj+add", c.intermediate_size, c.hidden_size, layers},
      {"lm_head", "norm+lm_head", c.hidden_size, c.vocab_size, 1},
  }};
  std::vector<OperationCount> operations;
  for (const Product& p : products) {
    const auto weights = static_cast<double>(p.k * p.n);
    const auto operands = static_cast<double>(batch * (p.k + p.n));
    operations.push_back({p.name, flop_of(stages, p.stage),
                          kOperandBytes * (weights + operands) * static_cast<double>(p.times)});
  }
  const auto values = static_cast<double>(2 * c.kv_size() * layers * context);
  operations.push_back(
      {"attention", flop_of(stages, "attention"),
       values * static_cast<double>(batch) * static_cast<double>(bits_of(kv_dtype)) / 8});
  return operations;
}

struct LimitTimes {
  double compute;
  double memory;
};

LimitTimes limit_times(const GpuSheet& gpu, double flop, double bytes) {
  LLM_CHECK(gpu.peak_tflops > 0 && gpu.peak_gbs > 0);
  return {flop / (gpu.peak_tflops * 1e12), bytes / (gpu.peak_gbs * 1e9)};
}

}  // namespace

DecodeEstimate estimate_decode(const ModelConfig& config, int64_t batch, int64_t context,
                               DType kv_dtype) {
  LLM_CHECK(batch > 0 && context > 0);
  if (context > config.max_position_embeddings) {
    refuse("--context {}: the model holds {} tokens at most", context,
           config.max_position_embeddings);
  }
  const std::vector<StageTotal> stages = stages_of_step(config, batch, context, kv_dtype);
  DecodeEstimate estimate;
  estimate.batch = batch;
  estimate.context = context;
  estimate.operations = count_operations(stages, config, batch, context, kv_dtype);
  estimate.step = count_step(stages, batch);
  estimate.held_weight_bytes =
      static_cast<double>(config.num_parameters()) * bits_of(DType::kBF16) / 8;
  estimate.held_kv_bytes = static_cast<double>(kv_bytes_per_token(config, kv_dtype)) *
                           static_cast<double>(context) * static_cast<double>(batch);
  return estimate;
}

double limit_seconds(const GpuSheet& gpu, double flop, double bytes) {
  const LimitTimes times = limit_times(gpu, flop, bytes);
  return std::max(times.compute, times.memory);
}

bool limited_by_memory(const GpuSheet& gpu, double flop, double bytes) {
  const LimitTimes times = limit_times(gpu, flop, bytes);
  return times.memory >= times.compute;
}

std::optional<double> predicted_seconds(const GpuSheet& gpu, const StepConstants& constants,
                                        const StepCount& step) {
  if (!step.launches) return std::nullopt;
  GpuSheet measured = gpu;
  measured.peak_gbs = constants.bandwidth_gbs.value;
  return limit_seconds(measured, step.flop, step.bytes()) +
         static_cast<double>(*step.launches) * constants.phase_us.value * 1e-6;
}

}  // namespace llm
