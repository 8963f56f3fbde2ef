#include "engine/known_answer.h"

#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "model/decoder.h"
#include "model/weights.h"

namespace llm {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int32_t kPrompt = 270;  // more than the 256 tokens of a KV split
constexpr int32_t kSteps = 4;     // single tokens after it
constexpr int32_t kContext = 288;
constexpr int32_t kNumWanted = 8;  // rows of the prompt whose logits count

/// Widths that leave remainders in every kernel's tiles.
ModelConfig small_config() {
  ModelConfig c;
  c.architecture = Architecture::kQwen3;
  c.vocab_size = 501;
  c.hidden_size = 136;
  c.intermediate_size = 328;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 40;
  c.max_position_embeddings = kContext;
  c.rope.theta = 1e6;
  c.tie_word_embeddings = true;
  c.qk_norm = true;
  return c;
}

/// One sequence in blocks that follow each other.
class Runner {
 public:
  Runner(ThreadPool& pool, Isa isa)
      : backend_(make_cpu_backend(pool, default_act(isa), isa)),
        decoder_(small_config(), random_weights(small_config(), kSeed, pool), *backend_, kContext),
        cache_(decoder_.make_cache(kContext / kKvBlockSize, DType::kBF16)),
        blocks_(kContext / kKvBlockSize) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
  }

  /// Appends `count` tokens; logits of the last `wanted` of them.
  ConstTensor append(int32_t count, int32_t wanted) {
    std::vector<int32_t> ids, positions, logits;
    for (int32_t i = 0; i < count; ++i) {
      positions.push_back(length_ + i);
      ids.push_back((length_ + i) * 7 % 501);
      if (i >= count - wanted) logits.push_back(i);
    }
    length_ += count;
    const int32_t start[] = {0, count};
    Batch batch;
    batch.input_ids = ids;
    batch.positions = positions;
    batch.slot_mapping = positions;
    batch.query_start_loc = start;
    batch.seq_lens = {&length_, 1};
    batch.block_tables = blocks_;
    batch.max_blocks = static_cast<int64_t>(blocks_.size());
    batch.logits_indices = logits;
    batch.num_decode_rows = count == 1 ? 1 : 0;
    return decoder_.forward(batch, cache_);
  }

 private:
  std::unique_ptr<Backend> backend_;
  Decoder decoder_;
  KvCache cache_;
  std::vector<int32_t> blocks_;
  int32_t length_ = 0;
};

uint64_t fnv1a(uint64_t hash, ConstTensor tensor) {
  constexpr uint64_t kPrime = 0x100000001b3u;
  for (int64_t i = 0; i < tensor.bytes(); ++i) {
    hash = (hash ^ static_cast<uint8_t>(tensor.data[i])) * kPrime;
  }
  return hash;
}

}  // namespace

uint64_t known_answer_hash(ThreadPool& pool, Isa isa) {
  constexpr uint64_t kOffsetBasis = 0xcbf29ce484222325u;
  Runner runner(pool, isa);
  uint64_t hash = fnv1a(kOffsetBasis, runner.append(kPrompt, kNumWanted));
  for (int32_t i = 0; i < kSteps; ++i) hash = fnv1a(hash, runner.append(1, 1));
  return hash;
}

uint64_t expected_answer_hash(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return 0x85c282447aeccc2fu;
    case Isa::kAvx2:
      return 0xb1918314b361d3a8u;
    case Isa::kAvx512:
      return 0xf4c557ecb04ca0b2u;
    case Isa::kAvx512Bf16:
      return 0xf9487dc6277d74e1u;
  }
  return 0;
}

}  // namespace llm
