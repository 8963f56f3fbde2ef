#include "model_harness.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/cpu/cpu_backend.h"
#include "base/log.h"
#include "io/safetensors.h"
#include "model/weights.h"

namespace llm {

RunningModel::RunningModel(const std::filesystem::path& model_dir, const Options& options)
    : pool_(options.threads),
      backend_(options.cuda ? make_cuda_backend(pool_, *options.cuda)
                            : make_cpu_backend(pool_, options.act, options.isa)) {
  const ModelConfig config = load_model_config(model_dir);
  auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(model_dir));
  DecoderWeights weights = load_weights(config, checkpoint, Log(Verbosity::kQuiet));
  place_weights(weights, *backend_, pool_);
  decoder_ = std::make_unique<Decoder>(config, std::move(weights), *backend_, options.capacity);
  const int64_t blocks = (options.capacity + kKvBlockSize - 1) / kKvBlockSize;
  cache_ = std::make_unique<KvCache>(decoder_->make_cache(blocks, options.kv_dtype));
  block_table_.resize(static_cast<size_t>(blocks));
  std::iota(block_table_.rbegin(), block_table_.rend(), 0);  // from the last block to the first
}

ConstTensor RunningModel::step(std::span<const int32_t> ids, int64_t length,
                               std::span<const int32_t> wanted) {
  const int32_t count = static_cast<int32_t>(ids.size());
  std::vector<int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(length));
  std::vector<int32_t> slots;
  for (int32_t p : positions) {
    slots.push_back(block_table_[static_cast<size_t>(p / kKvBlockSize)] * kKvBlockSize +
                    p % kKvBlockSize);
  }
  const int32_t start[] = {0, count};
  const int32_t lengths[] = {static_cast<int32_t>(length) + count};
  Batch batch;
  batch.input_ids = ids;
  batch.positions = positions;
  batch.slot_mapping = slots;
  batch.query_start_loc = start;
  batch.seq_lens = lengths;
  batch.block_tables = block_table_;
  batch.max_blocks = static_cast<int64_t>(block_table_.size());
  batch.logits_indices = wanted;
  batch.num_decode_rows = length > 0 && count == 1 ? 1 : 0;
  return backend_->to_host(decoder_->forward(batch, *cache_));
}

Logits RunningModel::logits(std::span<const int32_t> ids, std::span<const int64_t> chunks) {
  const int64_t all[] = {static_cast<int64_t>(ids.size())};
  if (chunks.empty()) chunks = all;
  Logits out;
  int64_t done = 0;
  for (int64_t chunk : chunks) {
    std::vector<int32_t> wanted(static_cast<size_t>(chunk));
    std::iota(wanted.begin(), wanted.end(), 0);
    const ConstTensor rows =
        step(ids.subspan(static_cast<size_t>(done), static_cast<size_t>(chunk)), done, wanted);
    out.insert(out.end(), rows.as<float>(), rows.as<float>() + rows.shape.num_elements());
    done += chunk;
  }
  return out;
}

std::vector<int32_t> RunningModel::greedy(std::span<const int32_t> ids, int64_t count) {
  std::vector<int32_t> out;
  std::vector<int32_t> next(ids.begin(), ids.end());
  int64_t length = 0;
  while (static_cast<int64_t>(out.size()) < count) {
    const int32_t last[] = {static_cast<int32_t>(next.size()) - 1};
    const ConstTensor row = step(next, length, last);
    length += static_cast<int64_t>(next.size());
    next = {arg_max({row.as<float>(), static_cast<size_t>(row.shape[1])})};
    out.push_back(next[0]);
  }
  return out;
}

int32_t arg_max(std::span<const float> row) {
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

bool same_bits(const Logits& a, const Logits& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace llm
