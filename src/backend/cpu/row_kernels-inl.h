// Bodies of row_kernels.h over a vector type V (vec_*.h). Included once per instruction set, after
// that header, inside namespace llm; all of it is local to the including object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/cpu/row_kernels.h"
#include "backend/cpu/vec_exp.h"

namespace llm {
namespace {

template <typename V>
void rms_norm(float* y, const float* x, const float* weight, int64_t n, float eps) {
  constexpr int kLanes = V::kLanes;
  auto squares = V::zero();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto v = V::load(x + i);
    squares = V::fma(v, v, squares);
  }
  float total = V::sum(squares);
  for (; i < n; ++i) total += x[i] * x[i];
  const float scale = 1.0f / __builtin_sqrtf(total / static_cast<float>(n) + eps);
  const auto scales = V::set1(scale);
  for (i = 0; i + kLanes <= n; i += kLanes) {
    V::store(y + i, V::mul(V::mul(V::load(x + i), scales), V::load(weight + i)));
  }
  for (; i < n; ++i) y[i] = x[i] * scale * weight[i];
}

template <typename V>
void rotate(float* x, const float* cos, const float* sin, int64_t half) {
  constexpr int kLanes = V::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const auto a = V::load(x + i);
    const auto b = V::load(x + half + i);
    const auto c = V::load(cos + i);
    const auto s = V::load(sin + i);
    V::store(x + i, V::sub(V::mul(a, c), V::mul(b, s)));
    V::store(x + half + i, V::add(V::mul(b, c), V::mul(a, s)));
  }
  for (; i < half; ++i) {
    const float a = x[i];
    const float b = x[half + i];
    x[i] = a * cos[i] - b * sin[i];
    x[half + i] = b * cos[i] + a * sin[i];
  }
}

template <typename V>
void scale_to_bf16(uint16_t* y, const float* x, float scale, int64_t n) {
  constexpr int kLanes = V::kLanes;
  const auto scales = V::set1(scale);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) V::store_bf16(y + i, V::mul(V::load(x + i), scales));
  for (; i < n; ++i) {
    const float scaled = x[i] * scale;
    uint32_t u;
    std::memcpy(&u, &scaled, sizeof u);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    y[i] = scaled == scaled ? static_cast<uint16_t>(rounded) : 0x7fc0;
  }
}

template <typename V>
void expand_i8(uint16_t* y, const std::byte* x, int64_t n) {
  for (int64_t i = 0; i < n; i += V::kLanes) V::store_exact_bf16(y + i, V::load_i8(x + i));
}

template <typename V>
void expand_f8e4m3(uint16_t* y, const std::byte* x, int64_t n) {
  for (int64_t i = 0; i < n; i += V::kLanes) V::store_exact_bf16(y + i, V::load_f8e4m3(x + i));
}

/// How the two products of attention read a BF16 cache: 32-bit words of two values.
template <typename V>
struct CacheBf16 {
  using Element = uint16_t;
  using Operand = typename V::U32;
  static constexpr int64_t kStep = 2;  // dimensions (scores) or tokens (output) per word
  static Operand load(const Element* p) { return V::load_pairs(p); }
  static Operand broadcast(const Element* p) { return V::set1_pair(p); }
  static typename V::F32 accumulate(typename V::F32 acc, Operand a, Operand b) {
    return V::dot(acc, a, b);
  }
};

/// The same for a float32 cache: one value per 32-bit word.
template <typename V>
struct CacheF32 {
  using Element = float;
  using Operand = typename V::F32;
  static constexpr int64_t kStep = 1;
  static Operand load(const Element* p) { return V::load(p); }
  static Operand broadcast(const Element* p) { return V::set1(*p); }
  static typename V::F32 accumulate(typename V::F32 acc, Operand a, Operand b) {
    return V::fma(a, b, acc);
  }
};

/// Scores of kQueries queries against kBlocks blocks: one accumulator per query and 16 tokens.
template <typename V, typename C, int kQueries, int kBlocks>
void score_tile(const AttendArgs& args, int64_t query, int64_t block, int64_t num_blocks) {
  using Element = typename C::Element;
  constexpr int kParts = kKvBlockSize / V::kLanes;  // vectors per row of 16 tokens
  const int64_t dims = args.head_dim_padded;
  const Element* q = static_cast<const Element*>(args.queries) + query * dims;
  const int32_t* ids = args.block_table + block;
  const Element* k[kBlocks];
  // Fetched along the way: these blocks' values and the keys of the tile after this one. A block
  // is too short for the hardware's own prefetch to run ahead of it.
  const std::byte* ahead[2 * kBlocks];
  for (int b = 0; b < kBlocks; ++b) {
    k[b] = reinterpret_cast<const Element*>(args.k + ids[b] * args.block_stride);
    ahead[b] = args.v + ids[b] * args.block_stride;
    const int64_t next = block + kBlocks + b < num_blocks ? ids[kBlocks + b] : ids[b];
    ahead[kBlocks + b] = args.k + next * args.block_stride;
  }
  typename V::F32 acc[kQueries][kBlocks][kParts];
  for (auto& of_query : acc) {
    for (auto& of_block : of_query) {
      for (auto& part : of_block) part = V::zero();
    }
  }
  for (int64_t d = 0; d < dims; d += C::kStep) {
    if (query == 0) {  // the tiles of later queries find them in the cache
      const int64_t line = d / C::kStep * 64;
      for (const std::byte* place : ahead) __builtin_prefetch(place + line);
    }
    typename C::Operand keys[kBlocks][kParts];
    for (int b = 0; b < kBlocks; ++b) {
      for (int p = 0; p < kParts; ++p) {
        keys[b][p] = C::load(k[b] + d * kKvBlockSize + p * V::kLanes * C::kStep);
      }
    }
    for (int i = 0; i < kQueries; ++i) {
      const auto value = C::broadcast(q + i * dims + d);
      for (int b = 0; b < kBlocks; ++b) {
        for (int p = 0; p < kParts; ++p) {
          acc[i][b][p] = C::accumulate(acc[i][b][p], keys[b][p], value);
        }
      }
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    float* row = args.scores + (query + i) * kKvSplit + block * kKvBlockSize;
    for (int b = 0; b < kBlocks; ++b) {
      for (int p = 0; p < kParts; ++p) {
        V::store(row + b * kKvBlockSize + p * V::kLanes, acc[i][b][p]);
      }
    }
  }
}

template <typename V, typename C, int kQueries>
void score_blocks(const AttendArgs& args, int64_t query, int64_t num_blocks) {
  int64_t block = 0;
  for (; block + V::kTileBlocks <= num_blocks; block += V::kTileBlocks) {
    score_tile<V, C, kQueries, V::kTileBlocks>(args, query, block, num_blocks);
  }
  for (; block < num_blocks; ++block) score_tile<V, C, kQueries, 1>(args, query, block, num_blocks);
}

/// Turns the scores of one query into weights exp(score - maximum) and sets its state.
template <typename V>
void softmax_weights(float* scores, int64_t visible, AttendState& state) {
  constexpr int kLanes = V::kLanes;
  const float hidden = -__builtin_inff();
  const int64_t end = (visible + kKvBlockSize - 1) / kKvBlockSize * kKvBlockSize;
  for (int64_t t = visible; t < end; ++t) scores[t] = hidden;
  auto maxima = V::load(scores);
  for (int64_t t = kLanes; t < end; t += kLanes) maxima = V::max(maxima, V::load(scores + t));
  state.maximum = V::largest(maxima);
  const auto maximum = V::set1(state.maximum);
  auto sums = V::zero();
  for (int64_t t = 0; t < end; t += kLanes) {
    const auto p = exp_of_nonpositive<V>(V::sub(V::load(scores + t), maximum));
    V::store(scores + t, p);
    sums = V::add(sums, p);
  }
  state.sum = V::sum(sums);
}

/// scores[t] *= scales[t] up to the end of the block of the last visible token.
template <typename V>
void scale_scores(float* scores, const float* scales, int64_t visible) {
  for (int64_t t = 0; t < visible; t += V::kLanes) {
    V::store(scores + t, V::mul(V::load(scores + t), V::load(scales + t)));
  }
}

/// out[kQueries][kTileDims vectors] = weights * values over the split's first num_tokens tokens.
template <typename V, typename C, int kQueries>
void value_tile(const AttendArgs& args, const typename C::Element* weights, int64_t query,
                int64_t dim, int64_t num_tokens) {
  using Element = typename C::Element;
  constexpr int kDims = V::kTileDims;
  const int64_t dims = args.head_dim_padded;
  const int64_t num_vectors = (dims - dim) / V::kLanes;
  const int count = num_vectors < kDims ? static_cast<int>(num_vectors) : kDims;
  typename V::F32 acc[kQueries][kDims];
  for (auto& of_query : acc) {
    for (auto& vector : of_query) vector = V::zero();
  }
  for (int64_t first = 0; first < num_tokens; first += kKvBlockSize) {
    const int64_t id = args.block_table[first / kKvBlockSize];
    const Element* v = reinterpret_cast<const Element*>(args.v + id * args.block_stride);
    const Element* w = weights + query * kKvSplit + first;
    // Not past the last token: what lies there may be anything, even NaN.
    const int64_t count_here =
        num_tokens - first < kKvBlockSize ? num_tokens - first : kKvBlockSize;
    for (int64_t t = 0; t < count_here; t += C::kStep) {
      typename C::Operand values[kDims];
      for (int j = 0; j < kDims; ++j) {
        // Past the last vector of the head: any address that is in the block serves.
        const int64_t at = j < count ? dim + j * V::kLanes : dim;
        values[j] = C::load(v + t * dims + at * C::kStep);
      }
      for (int i = 0; i < kQueries; ++i) {
        const auto weight = C::broadcast(w + i * kKvSplit + t);
        for (int j = 0; j < kDims; ++j) acc[i][j] = C::accumulate(acc[i][j], values[j], weight);
      }
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    for (int j = 0; j < count; ++j) {
      V::store(args.states[query + i].out + dim + j * V::kLanes, acc[i][j]);
    }
  }
}

/// Covers the queries by tiles of kQueries, then of half as many, down to 1: tile<n>(first query).
template <int kQueries, typename Tile>
void for_query_tiles(int64_t num_queries, Tile tile, int64_t query = 0) {
  for (; query + kQueries <= num_queries; query += kQueries)
    tile.template operator()<kQueries>(query);
  if constexpr (kQueries > 1) for_query_tiles<kQueries / 2>(num_queries, tile, query);
}

/// The weights of all queries in the type that the cache's product takes.
template <typename V, typename C>
const typename C::Element* weights_of(const AttendArgs& args, int64_t end) {
  if constexpr (C::kStep == 2) {
    for (int64_t i = 0; i < args.num_queries; ++i) {
      scale_to_bf16<V>(args.weights + i * kKvSplit, args.scores + i * kKvSplit, 1.0f, end);
    }
    return args.weights;
  } else {
    return args.scores;
  }
}

template <typename V, typename C>
void attend(const AttendArgs& args) {
  int64_t seen = 0;  // tokens of this split that any query sees
  for (int64_t i = 0; i < args.num_queries; ++i) {
    const int64_t visible = args.limits[i] - args.first_token;
    if (visible > seen) seen = visible;
  }
  if (seen > kKvSplit) seen = kKvSplit;
  const int64_t num_blocks = (seen + kKvBlockSize - 1) / kKvBlockSize;
  const int64_t end = num_blocks * kKvBlockSize;

  for_query_tiles<V::kTileQueries>(args.num_queries, [&]<int kQueries>(int64_t query) {
    score_blocks<V, C, kQueries>(args, query, num_blocks);
  });
  for (int64_t i = 0; i < args.num_queries; ++i) {
    float* scores = args.scores + i * kKvSplit;
    int64_t visible = args.limits[i] - args.first_token;
    if (visible > kKvSplit) visible = kKvSplit;
    int64_t done = 0;
    if (visible > 0) {
      if (args.k_scales != nullptr) scale_scores<V>(scores, args.k_scales, visible);
      softmax_weights<V>(scores, visible, args.states[i]);
      if (args.v_scales != nullptr) {
        // Not past the last token, whose weight of 0 must stay it: any bits may be a scale there.
        for (int64_t t = 0; t < visible; ++t) scores[t] *= args.v_scales[t];
      }
      done = (visible + kKvBlockSize - 1) / kKvBlockSize * kKvBlockSize;
    } else {
      args.states[i].sum = 0.0f;
    }
    for (int64_t t = done; t < end; ++t) scores[t] = 0.0f;
  }
  const typename C::Element* weights = weights_of<V, C>(args, end);
  for (int64_t dim = 0; dim < args.head_dim_padded; dim += V::kTileDims * V::kLanes) {
    for_query_tiles<V::kTileQueries>(args.num_queries, [&]<int kQueries>(int64_t query) {
      value_tile<V, C, kQueries>(args, weights, query, dim, seen);
    });
  }
}

template <typename V>
void merge(AttendState& into, const AttendState& split, int64_t head_dim_padded) {
  const float maximum = into.maximum > split.maximum ? into.maximum : split.maximum;
  float factors[2 * V::kLanes] = {into.maximum - maximum, split.maximum - maximum};
  V::store(factors, exp_of_nonpositive<V>(V::load(factors)));
  const auto keep = V::set1(factors[0]);
  const auto take = V::set1(factors[1]);
  for (int64_t d = 0; d < head_dim_padded; d += V::kLanes) {
    V::store(into.out + d,
             V::fma(V::load(split.out + d), take, V::mul(V::load(into.out + d), keep)));
  }
  into.sum = into.sum * factors[0] + split.sum * factors[1];
  into.maximum = maximum;
}

template <typename V>
constexpr RowKernels make_row_kernels() {
  return {rms_norm<V>,
          rotate<V>,
          scale_to_bf16<V>,
          expand_i8<V>,
          expand_f8e4m3<V>,
          attend<V, CacheBf16<V>>,
          attend<V, CacheF32<V>>,
          merge<V>};
}

}  // namespace
}  // namespace llm
