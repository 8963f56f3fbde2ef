// A step on the emulated GPU has as many launches as are predicted for it.
#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "backend/cuda.h"
#include "cuda/emu/settings.h"
#include "engine/estimate.h"
#include "model/decoder.h"

namespace llm {
namespace {

constexpr int32_t kContext = 20;

ModelConfig small_config() {
  ModelConfig c = named_model_config("qwen3-0.6b").value();
  c.vocab_size = 96;
  c.hidden_size = 64;
  c.intermediate_size = 96;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 2;
  c.num_key_value_heads = 1;
  c.head_dim = 32;
  return c;
}

/// Launches of the forward pass of one row each of `batch` sequences.
int64_t launches_of_step(const ModelConfig& config, int32_t batch) {
  const emu::Session session({});
  ThreadPool pool(1);
  const auto backend = make_cuda_backend(pool, {});
  DecoderWeights weights = random_weights(config, 1, pool);
  place_weights(weights, *backend, pool);
  Decoder decoder(config, std::move(weights), *backend, kContext);
  const auto blocks_each = static_cast<int32_t>(kv_blocks_for(kContext));
  KvCache cache = decoder.make_cache(int64_t{batch} * blocks_each, DType::kBF16);
  const auto rows = static_cast<size_t>(batch);
  const std::vector<int32_t> ids(rows, 5), positions(rows, kContext - 1), lengths(rows, kContext);
  std::vector<int32_t> starts(rows + 1), tables(rows * static_cast<size_t>(blocks_each)), slots;
  std::iota(starts.begin(), starts.end(), 0);
  std::iota(tables.begin(), tables.end(), 0);
  for (int32_t i = 0; i < batch; ++i) {
    slots.push_back(i * blocks_each * kKvBlockSize + kContext - 1);
  }
  Batch step;
  step.input_ids = ids;
  step.positions = positions;
  step.slot_mapping = slots;
  step.query_start_loc = starts;
  step.seq_lens = lengths;
  step.block_tables = tables;
  step.max_blocks = blocks_each;
  step.logits_indices = std::span(starts).first(rows);
  step.num_decode_rows = batch;
  decoder.forward(step, cache);
  backend->finish();
  int64_t launches = 0;
  for (const auto& [kernel, count] : session.counters().launches) launches += count;
  CHECK(session.reports().empty());
  return launches;
}

}  // namespace

TEST_CASE("estimate: launches of a step are those that the emulator counts") {
  const ModelConfig config = small_config();
  for (const int32_t batch : {1, 8, 9, 64}) {
    CAPTURE(batch);
    const StepCount step = estimate_decode(config, batch, kContext, DType::kBF16).step;
    CHECK(step.launches == launches_of_step(config, batch) + 1);  // and the sampling
  }
}

}  // namespace llm
