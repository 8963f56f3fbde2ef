#include "cuda/measure/cached_attention.h"

#include <algorithm>
#include <numeric>

namespace llm::measure {
namespace {

// As the backend bounds the partial results of one launch.
constexpr int64_t kMaxPartialBytes = int64_t{64} << 20;
constexpr int kMaxGroup = 8;

DType dtype_of(KvType type) {
  return type == KvType::kBF16 ? DType::kBF16 : type == KvType::kI8 ? DType::kI8 : DType::kF8E4M3;
}

KvCacheSpec spec_of(const AttentionShape& shape, int64_t seqs, int64_t context) {
  return {shape.layers, seqs * kv_blocks_for(context), shape.num_kv_heads, shape.head_dim,
          dtype_of(shape.kv_type)};
}

/// The host's side of a step's arrays.
struct HostBatch {
  std::vector<int32_t> ids, positions, slots, starts, lengths, tables, logits;
  int64_t max_blocks = 0;

  HostBatch(int64_t seqs, int64_t context, Rows rows) : max_blocks(kv_blocks_for(context)) {
    const int64_t blocks = seqs * max_blocks;
    for (int64_t seq = 0; seq < seqs; ++seq) {
      starts.push_back(static_cast<int32_t>(ids.size()));
      lengths.push_back(static_cast<int32_t>(context));
      for (int64_t i = 0; i < max_blocks; ++i) {
        tables.push_back(static_cast<int32_t>(scattered(seq * max_blocks + i, blocks)));
      }
      const int32_t* table = tables.data() + seq * max_blocks;
      for (int64_t at = rows == Rows::kDecode ? context - 1 : 0; at < context; ++at) {
        ids.push_back(static_cast<int32_t>(at % 61));
        positions.push_back(static_cast<int32_t>(at));
        slots.push_back(
            static_cast<int32_t>(table[at / kKvBlockSize] * kKvBlockSize + at % kKvBlockSize));
      }
      logits.push_back(static_cast<int32_t>(ids.size() - 1));
    }
    starts.push_back(static_cast<int32_t>(ids.size()));
  }

  Batch batch(Rows rows) const {
    return {ids,        positions, slots,
            starts,     lengths,   tables,
            max_blocks, logits,    rows == Rows::kDecode ? static_cast<int64_t>(ids.size()) : 0};
  }
};

}  // namespace

int64_t AttentionShape::layer_bytes(int64_t seqs, int64_t context) const {
  const KvCacheSpec spec = spec_of(*this, seqs, context);
  return spec.total_bytes() / layers;
}

double AttentionShape::element_bytes(int64_t tokens) const {
  const double of_one = kv_type == KvType::kBF16 ? 2 : 1;
  return 2.0 * num_kv_heads * head_dim * of_one * static_cast<double>(tokens);
}

CachedAttention::CachedAttention(Lab& lab, const AttentionShape& shape, int64_t seqs,
                                 int64_t context, Rows rows)
    : shape_(shape), spec_(spec_of(shape, seqs, context)), context_(context) {
  plane_bytes_ = spec_.num_blocks * spec_.block_bytes();
  const HostBatch host(seqs, context, rows);
  const Batch batch = host.batch(rows);
  const int group = shape.num_heads / shape.num_kv_heads;
  arrays_.upload(batch,
                 rows == Rows::kDecode ? StepShape::of_decode(batch) : StepShape::exact(batch),
                 kMaxGroup / group, false, lab.stream());
  const bool plain = shape.kv_type == KvType::kBF16;
  cache_ = lab.memory(spec_.total_bytes(), plain ? Fill::kBF16 : Fill::kEightBit);
  norms_ = lab.memory(int64_t{2} * shape.head_dim * 4, Fill::kF32);
  rope_ = lab.memory(context * shape.head_dim * 4, Fill::kF32);
  if (rows == Rows::kPrompt) {
    queries_ = lab.memory(batch.num_tokens() * shape.out_width() * 2, Fill::kBF16);
    return;
  }
  const TileList& tiles = arrays_.decode;
  const AttentionArgs one = args(0, nullptr, nullptr);
  const auto bytes = [&](int count) {
    return static_cast<int64_t>(decode_attention_scratch_bytes(one, count, tiles.max_splits));
  };
  tiles_at_once_ = tiles.num_tiles;
  while (tiles_at_once_ > 1 && bytes(tiles_at_once_) > kMaxPartialBytes) {
    tiles_at_once_ = (tiles_at_once_ + 1) / 2;
  }
  scratch_ = lab.zeros(bytes(tiles_at_once_));
}

AttentionArgs CachedAttention::args(int layer, bf16* out, const float* qkv) const {
  AttentionArgs args;
  args.out = out;
  args.qkv = qkv;
  args.q_norm = reinterpret_cast<const float*>(norms_.data());
  args.k_norm = args.q_norm + shape_.head_dim;
  args.norm_eps = 1e-6f;
  args.rope_cos = reinterpret_cast<const float*>(rope_.data());
  args.rope_sin = args.rope_cos + context_ * shape_.head_dim / 2;
  args.k_cache = cache_.data() + 2 * layer * plane_bytes_;
  args.v_cache = args.k_cache + plane_bytes_;
  args.kv_type = shape_.kv_type;
  args.block_bytes = spec_.block_bytes();
  args.head_bytes = spec_.head_bytes();
  args.num_heads = shape_.num_heads;
  args.num_kv_heads = shape_.num_kv_heads;
  args.head_dim = shape_.head_dim;
  args.positions = arrays_.positions;
  args.slot_mapping = arrays_.slot_mapping;
  args.query_start_loc = arrays_.query_start_loc;
  args.seq_lens = arrays_.seq_lens;
  args.block_tables = arrays_.block_tables;
  args.max_blocks = static_cast<int>(arrays_.shape.max_blocks);
  return args;
}

void CachedAttention::decode(int layer, bf16* out, const float* qkv, const MemoryRange (&next)[2],
                             Queue queue) {
  const TileList& list = arrays_.decode;
  DecodeAttention decode;
  decode.max_splits = list.max_splits;
  decode.scratch = scratch_.data();
  decode.next_weights[0] = next[0];
  decode.next_weights[1] = next[1];
  for (int first = 0; first < list.num_tiles; first += tiles_at_once_) {
    decode.tiles = list.tiles + first;
    decode.num_tiles = std::min(tiles_at_once_, list.num_tiles - first);
    launch_decode_attention(args(layer, out, qkv), decode, queue);
  }
}

void CachedAttention::append_prompt(int layer, const float* qkv, Queue queue) {
  launch_kv_append(args(layer, nullptr, qkv), reinterpret_cast<bf16*>(queries_.data()), 0, rows(),
                   queue);
}

void CachedAttention::attend_prompt(int layer, bf16* out, Queue queue) {
  launch_prefill_attention(args(layer, out, nullptr),
                           reinterpret_cast<const bf16*>(queries_.data()), 0, arrays_.prefill.tiles,
                           arrays_.prefill.num_tiles, queue);
}

}  // namespace llm::measure
