#include "backend/cpu/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace llm {
namespace {

// Rows that one task prepares: enough work to pay for handing it out.
constexpr int64_t kRowsPerTask = 8;

// Below this many tiles a thread, the splits of a tile run as tasks of their own.
constexpr int64_t kTilesPerThread = 4;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

void ensure(Buffer& buffer, int64_t bytes) {
  if (buffer.size() < bytes) buffer = Buffer(bytes);
}

uint16_t to_element(float x, uint16_t) { return to_bf16(x).bits; }
float to_element(float x, float) { return x; }
int8_t to_element(float x, int8_t) { return static_cast<int8_t>(std::lrint(x)); }
F8E4M3 to_element(float x, F8E4M3) { return to_f8e4m3(x); }

constexpr float kMaxInt8 = 127.0f;  // as far down as up

/// Divides x[n] by the scale with which its largest magnitude becomes `largest`; returns the scale.
/// Where a value isn't finite the scale is NaN, so that whatever reads the token shows it.
float take_scale(float* x, int64_t n, float largest) {
  float magnitude = 0.0f;
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) {
    finite = finite && std::isfinite(x[i]);
    magnitude = std::max(magnitude, std::abs(x[i]));
  }
  const float scale = magnitude / largest;
  const bool vanishes = scale < std::numeric_limits<float>::min();
  const float inverse = 1.0f / scale;
  for (int64_t i = 0; i < n; ++i) x[i] = finite && !vanishes ? x[i] * inverse : 0.0f;
  if (!finite) return std::numeric_limits<float>::quiet_NaN();
  return vanishes ? 0.0f : scale;
}

constexpr auto kExpandedBlocks = [] {
  std::array<int32_t, kKvSplit / kKvBlockSize> blocks{};
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int32_t>(i);
  return blocks;
}();

}  // namespace

void CpuAttention::Scratch::fit(const KvCacheSpec& spec) {
  const int64_t dims = padded_head_dim(spec.head_dim);
  const size_t queries = kMaxTileQueries;
  scores.resize(queries * kKvSplit);
  weights.resize(queries * kKvSplit);
  out.resize(2 * queries * static_cast<size_t>(dims));
  states.resize(2 * queries);
  limits.resize(queries);
  if (spec.has_scales()) {
    elements.resize(static_cast<size_t>(2 * kKvSplit * dims));
    scales.resize(2 * kKvSplit);
  }
  for (size_t i = 0; i < states.size(); ++i) {
    states[i].out = out.data() + i * static_cast<size_t>(dims);
  }
}

CpuAttention::CpuAttention(ThreadPool& pool, const RowKernels& kernels)
    : pool_(&pool), kernels_(&kernels), scratch_(static_cast<size_t>(pool.num_threads())) {}

void CpuAttention::run(float* out, const float* qkv, const AttentionParams& params,
                       const KvCache& cache, const Batch& batch) {
  const int64_t dims = padded_head_dim(params.head_dim);
  for (Scratch& scratch : scratch_) scratch.fit(cache.spec());
  prepare_rows(qkv, params, cache, batch);
  make_tiles(params, batch);

  const int64_t num_tiles = static_cast<int64_t>(tiles_.size());
  int64_t num_partials = 0;
  int64_t num_tasks = 0;
  for (Tile& tile : tiles_) {
    tile.first_partial = num_partials;
    num_partials += tile.num_splits * tile.num_queries;
    num_tasks += tile.num_splits;
  }
  const bool splits_apart =
      num_tasks > num_tiles && num_tiles < kTilesPerThread * pool_->num_threads();
  if (!splits_apart) {
    pool_->parallel_for(num_tiles, [&](int64_t i, int thread) {
      const Tile& tile = tiles_[static_cast<size_t>(i)];
      Scratch& scratch = scratch_[static_cast<size_t>(thread)];
      AttendState* running = scratch.states.data();
      AttendState* next = running + kMaxTileQueries;
      attend_split(tile, 0, scratch, running, params, cache, batch);
      for (int64_t split = 1; split < tile.num_splits; ++split) {
        attend_split(tile, split, scratch, next, params, cache, batch);
        for (int64_t q = 0; q < tile.num_queries; ++q) {
          if (next[q].sum != 0.0f) kernels_->merge(running[q], next[q], dims);
        }
      }
      write_result(tile, running, out, params, batch);
    });
    return;
  }

  ensure(partial_out_, num_partials * dims * static_cast<int64_t>(sizeof(float)));
  partials_.resize(static_cast<size_t>(num_partials));
  float* partial_out = reinterpret_cast<float*>(partial_out_.data());
  for (int64_t i = 0; i < num_partials; ++i) {
    partials_[static_cast<size_t>(i)].out = partial_out + i * dims;
  }
  std::vector<std::pair<int64_t, int64_t>> tasks;  // tile, split
  tasks.reserve(static_cast<size_t>(num_tasks));
  for (int64_t i = 0; i < num_tiles; ++i) {
    for (int64_t s = 0; s < tiles_[static_cast<size_t>(i)].num_splits; ++s)
      tasks.emplace_back(i, s);
  }
  pool_->parallel_for(num_tasks, [&](int64_t i, int thread) {
    const auto [index, split] = tasks[static_cast<size_t>(i)];
    const Tile& tile = tiles_[static_cast<size_t>(index)];
    AttendState* states = partials_.data() + tile.first_partial + split * tile.num_queries;
    attend_split(tile, split, scratch_[static_cast<size_t>(thread)], states, params, cache, batch);
  });
  pool_->parallel_for(num_tiles, [&](int64_t i, int) {
    const Tile& tile = tiles_[static_cast<size_t>(i)];
    AttendState* running = partials_.data() + tile.first_partial;
    for (int64_t split = 1; split < tile.num_splits; ++split) {
      const AttendState* next = running + split * tile.num_queries;
      for (int64_t q = 0; q < tile.num_queries; ++q) {
        if (next[q].sum != 0.0f) kernels_->merge(running[q], next[q], dims);
      }
    }
    write_result(tile, running, out, params, batch);
  });
}

/// Writes one token's k and v of one head into its block; last: no later token is there yet.
template <typename Element>
void CpuAttention::append(std::byte* k_block, std::byte* v_block, const float* k, const float* v,
                          int64_t offset, bool last, int64_t head_dim) const {
  constexpr int64_t kStep = sizeof(Element) == 4 ? 1 : 2;  // what a product takes at once
  const int64_t dims = padded_head_dim(head_dim);
  Element* keys = reinterpret_cast<Element*>(k_block);
  Element* values = reinterpret_cast<Element*>(v_block);
  for (int64_t d = 0; d < head_dim; ++d) {
    // K [D/step][16][step], V [16/step][D][step]
    keys[(d / kStep * kKvBlockSize + offset) * kStep + d % kStep] = to_element(k[d], Element{});
    values[(offset / kStep * dims + d) * kStep + offset % kStep] = to_element(v[d], Element{});
  }
  if (kStep == 2 && last && offset % 2 == 0) {
    // The pair's other token meets a weight of 0: whatever an earlier use left there must be
    // finite.
    for (int64_t d = 0; d < head_dim; ++d) values[(offset / 2 * dims + d) * 2 + 1] = Element{};
  }
}

void CpuAttention::prepare_rows(const float* qkv, const AttentionParams& params,
                                const KvCache& cache, const Batch& batch) {
  const int64_t head_dim = params.head_dim;
  const int64_t dims = padded_head_dim(head_dim);
  const int64_t half = head_dim / 2;
  const int64_t tokens = batch.num_tokens();
  const int64_t kv_heads = params.num_key_value_heads;
  const int64_t group = params.num_attention_heads / kv_heads;
  const KvCacheSpec& spec = cache.spec();
  const bool f32 = spec.dtype == DType::kF32;
  const int64_t element = f32 ? 4 : 2;  // bytes of a query's
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  const KvLayer layer = cache.layer(params.layer);
  ensure(queries_, kv_heads * tokens * group * dims * element);

  const auto normed_and_rotated = [&](float* x, const Norm* norm, int64_t position) {
    if (norm != nullptr) kernels_->rms_norm(x, x, norm->weight, head_dim, norm->eps);
    kernels_->rotate(x, params.rope_cos + position * half, params.rope_sin + position * half, half);
  };
  const auto prepare = [&](int64_t row, float* head) {
    const int64_t position = batch.positions[static_cast<size_t>(row)];
    const float* q = qkv + row * (params.q_size() + 2 * params.kv_size());
    const float* k = q + params.q_size();
    const float* v = k + params.kv_size();
    for (int64_t h = 0; h < params.num_attention_heads; ++h) {
      std::memcpy(head, q + h * head_dim, static_cast<size_t>(head_dim) * sizeof(float));
      normed_and_rotated(head, params.q_norm, position);
      std::byte* to =
          queries_.data() + (((h / group) * tokens + row) * group + h % group) * dims * element;
      if (f32) {
        float* query = reinterpret_cast<float*>(to);
        for (int64_t d = 0; d < head_dim; ++d) query[d] = head[d] * scale;
      } else {
        kernels_->scale_to_bf16(reinterpret_cast<uint16_t*>(to), head, scale, head_dim);
      }
      std::memset(to + head_dim * element, 0, static_cast<size_t>((dims - head_dim) * element));
    }
    const int64_t slot = batch.slot_mapping[static_cast<size_t>(row)];
    if (slot < 0) return;
    const int64_t block = slot / kKvBlockSize;
    for (int64_t h = 0; h < kv_heads; ++h) {
      float* key = head;
      const float* value = v + h * head_dim;
      std::memcpy(key, k + h * head_dim, static_cast<size_t>(head_dim) * sizeof(float));
      normed_and_rotated(key, params.k_norm, position);
      const int64_t at = block * spec.block_bytes() + h * spec.head_bytes();
      if (spec.has_scales()) {
        const float largest = spec.dtype == DType::kI8 ? kMaxInt8 : kMaxF8E4M3;
        float* scaled_value = head + dims;
        std::memcpy(scaled_value, value, static_cast<size_t>(head_dim) * sizeof(float));
        value = scaled_value;
        const float scales[] = {take_scale(key, head_dim, largest),
                                take_scale(scaled_value, head_dim, largest)};
        const int64_t scale_at = at + spec.element_bytes() + slot % kKvBlockSize * 4;
        std::memcpy(layer.k + scale_at, &scales[0], sizeof(float));
        std::memcpy(layer.v + scale_at, &scales[1], sizeof(float));
      }
      // The next token of this sequence is the next row, or not there yet.
      const bool last =
          row + 1 == tokens || batch.slot_mapping[static_cast<size_t>(row + 1)] != slot + 1;
      const auto append_as = [&](auto type) {
        append<decltype(type)>(layer.k + at, layer.v + at, key, value, slot % kKvBlockSize, last,
                               head_dim);
      };
      if (spec.dtype == DType::kF32) append_as(float{});
      if (spec.dtype == DType::kBF16) append_as(uint16_t{});
      if (spec.dtype == DType::kI8) append_as(int8_t{});
      if (spec.dtype == DType::kF8E4M3) append_as(F8E4M3{});
    }
  };
  pool_->parallel_for(ceil_div(tokens, kRowsPerTask), [&](int64_t task, int thread) {
    float* head = scratch_[static_cast<size_t>(thread)].out.data();
    const int64_t end = std::min(tokens, (task + 1) * kRowsPerTask);
    for (int64_t row = task * kRowsPerTask; row < end; ++row) prepare(row, head);
  });
}

void CpuAttention::make_tiles(const AttentionParams& params, const Batch& batch) {
  const int64_t group = params.num_attention_heads / params.num_key_value_heads;
  tiles_.clear();
  for (int64_t seq = 0; seq < batch.num_seqs(); ++seq) {
    const int64_t first_row = batch.query_start_loc[static_cast<size_t>(seq)];
    const int64_t end_row = batch.query_start_loc[static_cast<size_t>(seq) + 1];
    const int64_t num_queries = (end_row - first_row) * group;
    for (int64_t q = 0; q < num_queries; q += kMaxTileQueries) {
      const int64_t count = std::min(kMaxTileQueries, num_queries - q);
      const int64_t last_row = first_row + (q + count - 1) / group;
      const int64_t visible = batch.positions[static_cast<size_t>(last_row)] + 1;
      for (int64_t head = 0; head < params.num_key_value_heads; ++head) {
        tiles_.push_back({seq, head, q, count, ceil_div(visible, kKvSplit), 0});
      }
    }
  }
}

/// Widens one head's keys and values in the given blocks of 8-bit elements to BF16, in the same
/// order, and gathers their scales.
void CpuAttention::expand_split(int64_t head_offset, std::span<const int32_t> blocks,
                                Scratch& scratch, const KvCacheSpec& spec,
                                const KvLayer& layer) const {
  const int64_t elements = spec.element_bytes();  // of one byte
  const auto expand = spec.dtype == DType::kI8 ? kernels_->expand_i8 : kernels_->expand_f8e4m3;
  uint16_t* to = scratch.elements.data();
  float* scales = scratch.scales.data();
  for (const std::byte* plane : {layer.k, layer.v}) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      const std::byte* from = plane + blocks[i] * spec.block_bytes() + head_offset;
      expand(to + static_cast<int64_t>(i) * elements, from, elements);
      std::memcpy(scales + i * kKvBlockSize, from + elements, kKvBlockSize * sizeof(float));
    }
    to += kKvSplit / kKvBlockSize * elements;
    scales += kKvSplit;
  }
}

void CpuAttention::attend_split(const Tile& tile, int64_t split, Scratch& scratch,
                                AttendState* states, const AttentionParams& params,
                                const KvCache& cache, const Batch& batch) const {
  const int64_t dims = padded_head_dim(params.head_dim);
  const int64_t group = params.num_attention_heads / params.num_key_value_heads;
  const KvCacheSpec& spec = cache.spec();
  const bool f32 = spec.dtype == DType::kF32;
  const int64_t first_row = batch.query_start_loc[static_cast<size_t>(tile.seq)];
  int64_t end = 0;  // of the tokens that any query sees
  for (int64_t i = 0; i < tile.num_queries; ++i) {
    const size_t row = static_cast<size_t>(first_row + (tile.first_query + i) / group);
    const bool padding = batch.slot_mapping[row] < 0;
    const int32_t limit = padding ? 0 : batch.positions[row] + 1;
    scratch.limits[static_cast<size_t>(i)] = limit;
    end = std::max<int64_t>(end, limit);
  }
  const KvLayer layer = cache.layer(params.layer);
  const int64_t head_offset = tile.kv_head * spec.head_bytes();
  const int64_t first_token = split * kKvSplit;
  const int64_t num_blocks =
      ceil_div(std::clamp<int64_t>(end - first_token, 0, kKvSplit), kKvBlockSize);
  const std::span<const int32_t> blocks = batch.block_tables.subspan(
      static_cast<size_t>(tile.seq * batch.max_blocks + first_token / kKvBlockSize),
      static_cast<size_t>(num_blocks));
  AttendArgs args;
  args.queries = queries_.data() +
                 ((tile.kv_head * batch.num_tokens() + first_row) * group + tile.first_query) *
                     dims * (f32 ? 4 : 2);
  args.limits = scratch.limits.data();
  args.num_queries = tile.num_queries;
  args.head_dim_padded = dims;
  if (spec.has_scales()) {
    expand_split(head_offset, blocks, scratch, spec, layer);
    const uint16_t* elements = scratch.elements.data();
    args.block_table = kExpandedBlocks.data();
    args.k = reinterpret_cast<const std::byte*>(elements);
    args.v = reinterpret_cast<const std::byte*>(elements + kKvSplit * dims);
    args.block_stride = kKvBlockSize * dims * 2;
    args.k_scales = scratch.scales.data();
    args.v_scales = args.k_scales + kKvSplit;
  } else {
    args.block_table = blocks.data();
    args.k = layer.k + head_offset;
    args.v = layer.v + head_offset;
    args.block_stride = spec.block_bytes();
  }
  args.first_token = first_token;
  args.scores = scratch.scores.data();
  args.weights = scratch.weights.data();
  args.states = states;
  (f32 ? kernels_->attend_f32 : kernels_->attend_bf16)(args);
}

void CpuAttention::write_result(const Tile& tile, const AttendState* states, float* out,
                                const AttentionParams& params, const Batch& batch) const {
  const int64_t group = params.num_attention_heads / params.num_key_value_heads;
  const int64_t first_row = batch.query_start_loc[static_cast<size_t>(tile.seq)];
  for (int64_t i = 0; i < tile.num_queries; ++i) {
    const int64_t query = tile.first_query + i;
    const int64_t head = tile.kv_head * group + query % group;
    float* to = out + (first_row + query / group) * params.q_size() + head * params.head_dim;
    const float scale = states[i].sum == 0.0f ? 0.0f : 1.0f / states[i].sum;
    for (int64_t d = 0; d < params.head_dim; ++d) to[d] = states[i].out[d] * scale;
  }
}

}  // namespace llm
