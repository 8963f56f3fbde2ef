#include "attention_world.h"

#include <numeric>
#include <random>

namespace llm {
namespace {

using attention_reference::Values;

constexpr size_t kGuardRows = 2;  // before and after the results
constexpr uint8_t kGarbage = 0xff;

std::vector<int32_t> make_slots(const AttentionWorld& world, const std::vector<RowRange>& ranges) {
  std::vector<int32_t> slots;
  for (const RowRange& range : ranges) {
    for (int i = 0; i < range.count; ++i) {
      const bool is_padding = i >= range.count - range.padding;
      slots.push_back(is_padding ? -1 : world.slot(range.seq, range.first + i));
    }
  }
  return slots;
}

std::vector<int32_t> make_positions(const std::vector<RowRange>& ranges) {
  std::vector<int32_t> positions;
  for (const RowRange& range : ranges) {
    for (int i = 0; i < range.count; ++i) positions.push_back(range.first + i);
  }
  return positions;
}

std::vector<float> make_qkv(const AttentionWorld& world, const std::vector<RowRange>& ranges) {
  std::vector<float> qkv;
  for (const RowRange& range : ranges) {
    const float* from = world.row(range.seq, range.first);
    qkv.insert(qkv.end(), from, from + int64_t{range.count} * world.shape.qkv_width());
  }
  return qkv;
}

std::vector<int32_t> make_starts(const std::vector<RowRange>& ranges) {
  std::vector<int32_t> starts{0};
  for (const RowRange& range : ranges) starts.push_back(starts.back() + range.count);
  return starts;
}

std::vector<int32_t> make_lengths(const std::vector<RowRange>& ranges) {
  std::vector<int32_t> lengths;
  for (const RowRange& range : ranges) lengths.push_back(range.first + range.count);
  return lengths;
}

std::vector<int32_t> make_tables(const AttentionWorld& world, const std::vector<RowRange>& ranges) {
  std::vector<int32_t> tables;
  for (const RowRange& range : ranges) {
    const auto table = world.block_tables.begin() + range.seq * world.max_blocks;
    tables.insert(tables.end(), table, table + world.max_blocks);
    // What a sequence doesn't have yet must not be looked up.
    const int64_t has = kv_blocks_for(range.first + range.count);
    std::fill(tables.end() - world.max_blocks + has, tables.end(), 1 << 28);
  }
  return tables;
}

}  // namespace

AttentionWorld::AttentionWorld(const AttentionShape& shape, std::vector<int> lengths, uint32_t seed)
    : shape(shape), lengths(std::move(lengths)) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  const auto fill = [&](std::vector<float>& x, int64_t n, float scale) {
    x.resize(static_cast<size_t>(n));
    for (float& v : x) v = normal(random) * scale;
  };
  const int tokens = std::accumulate(this->lengths.begin(), this->lengths.end(), 0);
  fill(qkv, int64_t{tokens} * shape.qkv_width(), 1);
  fill(q_norm, shape.head_dim, 1);
  // So large that few keys have most of a row's weight: one left out or counted twice shows.
  fill(k_norm, shape.head_dim, 3);

  const int longest = *std::max_element(this->lengths.begin(), this->lengths.end());
  const int half = shape.head_dim / 2;
  for (int position = 0; position < longest; ++position) {
    for (int i = 0; i < half; ++i) {
      const double angle = position * std::pow(10000.0, -static_cast<double>(i) / half);
      rope_cos.push_back(static_cast<float>(std::cos(angle)));
      rope_sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }

  max_blocks = static_cast<int>(kv_blocks_for(longest)) + 1;
  for (int length : this->lengths) free_block_ += static_cast<size_t>(kv_blocks_for(length));
  std::vector<int32_t> blocks(free_block_);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), random);
  block_tables.assign(this->lengths.size() * static_cast<size_t>(max_blocks), -1);
  auto next = blocks.begin();
  for (size_t seq = 0; seq < this->lengths.size(); ++seq) {
    const int64_t count = kv_blocks_for(this->lengths[seq]);
    std::copy(next, next + count, block_tables.begin() + static_cast<int64_t>(seq) * max_blocks);
    next += count;
  }
}

const float* AttentionWorld::row(int seq, int position) const {
  const int before = std::accumulate(lengths.begin(), lengths.begin() + seq, 0);
  return qkv.data() + int64_t{before + position} * shape.qkv_width();
}

float* AttentionWorld::row(int seq, int position) {
  return const_cast<float*>(std::as_const(*this).row(seq, position));
}

int AttentionWorld::slot(int seq, int position) const {
  const int block = block_tables[static_cast<size_t>(seq * max_blocks + position / kKvBlockSize)];
  return block * kKvBlockSize + position % kKvBlockSize;
}

CacheBytes AttentionWorld::full_cache() const {
  std::vector<RowRange> ranges;
  for (size_t seq = 0; seq < lengths.size(); ++seq) {
    ranges.push_back({static_cast<int>(seq), 0, lengths[seq]});
  }
  const size_t bytes = static_cast<size_t>(num_blocks() * shape.block_bytes());
  const std::vector<uint8_t> empty(bytes, kGarbage);
  AttentionStep step(*this, {empty, empty}, ranges);
  launch_kv_append(step.args(), nullptr, 0, step.num_rows(), nullptr);
  return step.cache();
}

void AttentionWorld::copy_tokens(CacheBytes& to, const CacheBytes* from, int seq, int begin,
                                 int end) const {
  const auto copy = [](std::vector<uint8_t>& to, const std::vector<uint8_t>* from,
                       const uint8_t* place, size_t bytes) {
    const int64_t at = place - to.data();
    if (from != nullptr) std::memcpy(to.data() + at, from->data() + at, bytes);
    if (from == nullptr) std::memset(to.data() + at, kGarbage, bytes);
  };
  for (int position = begin; position < end; ++position) {
    for (int kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
      for (auto plane : {&CacheBytes::k, &CacheBytes::v}) {
        const auto token =
            attention_reference::token_bytes(to.*plane, shape, slot(seq, position), kv_head);
        const auto* source = from == nullptr ? nullptr : &(from->*plane);
        copy(to.*plane, source, token.elements, static_cast<size_t>(shape.row_bytes()));
        if (shape.has_scales()) copy(to.*plane, source, token.scale, sizeof(float));
      }
    }
  }
}

CacheBytes AttentionWorld::cache_before(const CacheBytes& full,
                                        const std::vector<RowRange>& ranges) const {
  CacheBytes cache = full;
  for (const RowRange& range : ranges) {
    copy_tokens(cache, nullptr, range.seq, range.first, lengths[static_cast<size_t>(range.seq)]);
  }
  return cache;
}

CacheBytes AttentionWorld::cache_after(const CacheBytes& full,
                                       const std::vector<RowRange>& ranges) const {
  CacheBytes cache = cache_before(full, ranges);
  for (const RowRange& range : ranges) {
    copy_tokens(cache, &full, range.seq, range.first, range.first + range.count - range.padding);
  }
  return cache;
}

Values AttentionWorld::normed_head(int seq, int position, int head,
                                   const std::vector<float>& norm) const {
  const int64_t at = int64_t{position} * (shape.head_dim / 2);
  return attention_reference::normed_and_rotated(
      row(seq, position) + head * shape.head_dim, shape.has_norms ? norm.data() : nullptr, kEps,
      rope_cos.data() + at, rope_sin.data() + at, shape.head_dim);
}

Values AttentionWorld::exact_key(int seq, int position, int kv_head) const {
  return normed_head(seq, position, shape.num_heads() + kv_head, k_norm);
}

Values AttentionWorld::exact_query(int seq, int position, int head) const {
  Values query = normed_head(seq, position, head, q_norm);
  const double scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  for (double& x : query) x = attention_reference::round_bf16(x * scale);
  return query;
}

AttentionStep::AttentionStep(const AttentionWorld& world, const CacheBytes& cache,
                             std::vector<RowRange> ranges)
    : world_(world),
      ranges_(std::move(ranges)),
      positions_(make_positions(ranges_)),
      k_cache_(cache.k),
      v_cache_(cache.v),
      qkv_(make_qkv(world, ranges_)),
      q_norm_(world.q_norm),
      k_norm_(world.k_norm),
      cos_(world.rope_cos),
      sin_(world.rope_sin),
      device_positions_(positions_),
      slots_(make_slots(world, ranges_)),
      query_start_loc_(make_starts(ranges_)),
      seq_lens_(make_lengths(ranges_)),
      block_tables_(make_tables(world, ranges_)),
      out_((positions_.size() + 2 * kGuardRows) * static_cast<size_t>(world.shape.out_width())) {
  out_.fill(kGarbage);
}

AttentionArgs AttentionStep::args() {
  const AttentionShape& shape = world_.shape;
  AttentionArgs args;
  args.out = reinterpret_cast<bf16*>(out_.data()) + kGuardRows * shape.out_width();
  args.qkv = qkv_.data();
  if (shape.has_norms) {
    args.q_norm = q_norm_.data();
    args.k_norm = k_norm_.data();
  }
  args.norm_eps = AttentionWorld::kEps;
  args.rope_cos = cos_.data();
  args.rope_sin = sin_.data();
  args.k_cache = reinterpret_cast<std::byte*>(k_cache_.data());
  args.v_cache = reinterpret_cast<std::byte*>(v_cache_.data());
  args.kv_type = shape.kv_type;
  args.block_bytes = shape.block_bytes();
  args.head_bytes = shape.head_bytes();
  args.num_heads = shape.num_heads();
  args.num_kv_heads = shape.num_kv_heads;
  args.head_dim = shape.head_dim;
  args.positions = device_positions_.data();
  args.slot_mapping = slots_.data();
  args.query_start_loc = query_start_loc_.data();
  args.seq_lens = seq_lens_.data();
  args.block_tables = block_tables_.data();
  args.max_blocks = world_.max_blocks;
  return args;
}

std::vector<AttentionTile> AttentionStep::tiles(bool of_decode) const {
  const AttentionShape& shape = world_.shape;
  const int most =
      of_decode ? decode_tile_rows(shape.num_heads(), shape.num_kv_heads) : kPrefillTileRows;
  std::vector<AttentionTile> tiles;
  int row = 0;
  for (size_t seq = 0; seq < ranges_.size(); ++seq) {
    for (int i = 0; i < ranges_[seq].count; ++i, ++row) {
      const int split = decode_split_size(ranges_[seq].first + i);
      AttentionTile* last = tiles.empty() ? nullptr : &tiles.back();
      if (i > 0 && last->num_rows < most && (!of_decode || last->split_size == split)) {
        ++last->num_rows;
      } else {
        tiles.push_back({static_cast<int32_t>(seq), row, 1, of_decode ? split : 0});
      }
    }
  }
  return tiles;
}

OutBits AttentionStep::results() {
  const std::vector<uint16_t> all = out_.host();
  const auto guard = static_cast<int64_t>(kGuardRows) * world_.shape.out_width();
  const auto is_untouched = [](uint16_t x) { return x == 0xffff; };
  REQUIRE(std::all_of(all.begin(), all.begin() + guard, is_untouched));
  REQUIRE(std::all_of(all.end() - guard, all.end(), is_untouched));
  return {all.begin() + guard, all.end() - guard};
}

int splits_of(const std::vector<RowRange>& ranges) {
  int splits = 1;
  for (const RowRange& range : ranges) {
    for (int position = range.first; position < range.first + range.count; ++position) {
      splits = std::max(splits, position / decode_split_size(position) + 1);
    }
  }
  return splits;
}

OutBits AttentionStep::decode(bool appends, DeviceArray<uint8_t>* scratch) {
  const std::vector<AttentionTile> host_tiles = tiles(true);
  const DeviceArray<AttentionTile> device_tiles(host_tiles);
  DecodeAttention decode;
  decode.tiles = device_tiles.data();
  decode.num_tiles = static_cast<int>(host_tiles.size());
  decode.max_splits = splits_of(ranges_);
  decode.appends = appends;
  const AttentionArgs args = this->args();
  const size_t bytes = decode_attention_scratch_bytes(args, decode.num_tiles, decode.max_splits);
  DeviceArray<uint8_t> own(scratch == nullptr ? bytes : 1);
  if (scratch == nullptr) own.fill(0);
  REQUIRE((scratch == nullptr || scratch->size() >= bytes));
  decode.scratch = scratch == nullptr ? own.data() : scratch->data();
  if (!appends) launch_kv_append(args, nullptr, 0, num_rows(), nullptr);
  launch_decode_attention(args, decode, nullptr);
  return results();
}

OutBits AttentionStep::prefill() {
  const std::vector<AttentionTile> host_tiles = tiles(false);
  const DeviceArray<AttentionTile> device_tiles(host_tiles);
  DeviceArray<uint16_t> queries(static_cast<size_t>(num_rows() * world_.shape.out_width()));
  bf16* device_queries = reinterpret_cast<bf16*>(queries.data());
  launch_kv_append(args(), device_queries, 0, num_rows(), nullptr);
  launch_prefill_attention(args(), device_queries, 0, device_tiles.data(),
                           static_cast<int>(host_tiles.size()), nullptr);
  queries_ = queries.host();
  return results();
}

OutBits row_of(const OutBits& out, const AttentionShape& shape, int row) {
  const auto begin = out.begin() + int64_t{row} * shape.out_width();
  return {begin, begin + shape.out_width()};
}

void check_results(const AttentionWorld& world, const CacheBytes& cache,
                   const std::vector<RowRange>& ranges, const OutBits& out) {
  const AttentionShape& shape = world.shape;
  int num_wrong = 0;
  double worst = 0;  // of the tolerance
  int row = 0;
  for (const RowRange& range : ranges) {
    for (int kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
      std::vector<attention_reference::CachedToken> keys, values;
      const auto cache_up_to = [&](int position) {
        for (int t = static_cast<int>(keys.size()); t <= position; ++t) {
          keys.push_back(
              attention_reference::cached_token(cache.k, shape, world.slot(range.seq, t), kv_head));
          values.push_back(
              attention_reference::cached_token(cache.v, shape, world.slot(range.seq, t), kv_head));
        }
      };
      for (int i = 0; i < range.count; ++i) {
        const bool is_padding = i >= range.count - range.padding;
        const int position = range.first + i;
        if (!is_padding) cache_up_to(position);
        for (int head = kv_head * shape.group; head < (kv_head + 1) * shape.group; ++head) {
          attention_reference::Expected expected{Values(shape.head_dim), Values(shape.head_dim)};
          if (!is_padding) {
            expected = attention_reference::attend(world.exact_query(range.seq, position, head),
                                                   keys, values);
          }
          const uint16_t* got =
              out.data() + (int64_t{row + i} * shape.num_heads() + head) * shape.head_dim;
          for (int d = 0; d < shape.head_dim; ++d) {
            const double error = std::abs(to_float(BF16{got[d]}) - expected.out[d]);
            if (!(error <= expected.tolerance[d])) ++num_wrong;
            if (!is_padding) worst = std::max(worst, error / expected.tolerance[d]);
          }
        }
      }
    }
    row += range.count;
  }
  CAPTURE(worst);
  CHECK(num_wrong == 0);
}

}  // namespace llm
