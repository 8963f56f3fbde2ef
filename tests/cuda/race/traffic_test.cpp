// What a decode step reads: every weight and the cache once.
#include <doctest/doctest.h>

#include <vector>

#include "../tiny_model.h"
#include "cuda/emu/race/race_detector.h"

namespace llm {
namespace {

/// The linear layers' weights; the head's are the embedding's.
std::vector<ConstTensor> weights_of(const DecoderWeights& weights) {
  std::vector<ConstTensor> all = {weights.lm_head.parts[0].weight.plain()};
  for (const DecoderLayer& layer : weights.layers) {
    for (const Linear* linear :
         {&layer.qkv_proj, &layer.o_proj, &layer.gate_up_proj, &layer.down_proj}) {
      for (const LinearPart& part : linear->parts) all.push_back(part.weight.plain());
    }
  }
  return all;
}

TEST_CASE("cuda traffic: a decode step touches the weights and the cache, and reads each once") {
  constexpr int32_t kPrompt = 300;  // several splits
  TinyModel gpu(Device::kCuda);
  const EngineSetting setting{.ignore_eos = true};
  const std::unique_ptr<Engine> engine = gpu.make_engine(setting);
  Ids prompt;
  for (int32_t i = 0; i < kPrompt; ++i) prompt.push_back(300 + i % 90);
  const auto sequence = engine->add(gpu.request(prompt, 20, setting));
  while (sequence->output_length() < 3) engine->step();

  emu::Traffic& traffic = emu::race_detector.traffic();
  traffic.start();
  engine->step();
  traffic.stop();

  int64_t weight_bytes = 0;
  int64_t weights_read = 0;
  for (const ConstTensor& weight : weights_of(gpu.decoder().weights())) {
    weight_bytes += weight.bytes();
    weights_read += traffic.bytes_read(weight.data, weight.bytes());
  }
  // The embedding's row is read on its own.
  const int64_t row_bytes = gpu.decoder().config().hidden_size * 2;
  CHECK(weights_read == weight_bytes + row_bytes);

  const KvCacheSpec& cache = engine->cache().spec();
  const int64_t tokens = sequence->length();
  const int64_t kv_bytes = 2 * cache.num_layers * cache.block_bytes() / kKvBlockSize * tokens;
  const double expected = static_cast<double>(weight_bytes + kv_bytes);
  const double touched = static_cast<double>(traffic.distinct_bytes());
  MESSAGE("weights and cache: ", weight_bytes + kv_bytes,
          " bytes, touched: ", traffic.distinct_bytes());
  CHECK(touched > expected * 0.99);
  CHECK(touched < expected * 1.01);
}

}  // namespace
}  // namespace llm
