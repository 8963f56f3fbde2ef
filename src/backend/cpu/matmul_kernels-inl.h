// Bodies of matmul_kernels.h over a vector type V: one of vec_*.h with the additions listed in
// matmul_avx512-inl.h. Included once per instruction set; all of it is local to that object.
#pragma once

#include <cstdint>
#include <cstring>

#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/matmul_steps-inl.h"
#include "backend/cpu/packed_kernels-inl.h"
#include "backend/cpu/vec_exp.h"

namespace llm {
namespace {

/// What the 32-bit words of a weight row become: kSteps vectors, in order of k.
template <typename V, WeightFormat kFormat>
struct Format;

template <typename V>
struct Format<V, WeightFormat::kF32> {
  using Op = Fma<V>;
  static constexpr int kSteps = 1;
  static void expand(typename V::U32 word, typename V::U32* out) { out[0] = word; }
};

template <typename V>
struct Format<V, WeightFormat::kBF16> {
  using Op = Fma<V>;
  static constexpr int kSteps = 2;
  static void expand(typename V::U32 word, typename V::U32* out) {
    out[0] = V::low_to_high(word);
    out[1] = V::keep_high(word);
  }
};

template <typename V>
struct Format<V, WeightFormat::kF16> {
  using Op = Fma<V>;
  static constexpr int kSteps = 2;
  static void expand(typename V::U32 word, typename V::U32* out) {
    out[0] = V::widen_low_halves(word);
    out[1] = V::widen_low_halves(V::high_to_low(word));
  }
};

template <typename V>
struct Format<V, WeightFormat::kBF16Pairs> {
  using Op = Dot<V>;
  static constexpr int kSteps = 1;
  static void expand(typename V::U32 word, typename V::U32* out) { out[0] = word; }
};

constexpr int64_t kWordBytes = 4;

inline int64_t words_of(const WeightRows& w) { return (w.row_bytes + kWordBytes - 1) / kWordBytes; }

/// Cuts the words of a row into blocks of at most kLanes, so that vectors don't straddle cache
/// lines where the rows' addresses allow it. take(word, count) gets each block in order.
template <typename V, typename Take>
[[gnu::always_inline]] inline void for_blocks(const WeightRows& w, Take take) {
  constexpr int64_t kBytes = V::kLanes * kWordBytes;
  const int64_t words = words_of(w);
  int64_t count = V::kLanes;
  const int64_t past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(w.data) % kBytes);
  if (past % kWordBytes == 0 && w.row_bytes % kBytes == 0) count -= past / kWordBytes;
  for (int64_t word = 0; word < words; word += count, count = V::kLanes) {
    count = smaller(count, words - word);
    take(word, count);
  }
}

/// Words [word, word + count) of rows [row, row + kLanes) at an edge: not a full vector of each, or
/// rows past the last one, which read as zeros. Returns where in `out` they begin.
template <typename V>
[[gnu::noinline]] int64_t load_edge(const WeightRows& w, int64_t row, int64_t word, int64_t count,
                                    typename V::U32* out) {
  constexpr int64_t kBytes = V::kLanes * kWordBytes;
  const char* from = w.data + row * w.row_bytes;
  if (row + V::kLanes <= w.rows && w.row_bytes >= kBytes && w.row_bytes % kWordBytes == 0) {
    // Whole vectors from inside the rows, though only some of their words are wanted.
    const int64_t start = smaller(word, w.row_bytes / kWordBytes - V::kLanes);
    V::transpose(from + start * kWordBytes, w.row_bytes, out);
    return word - start;
  }
  alignas(64) char edge[V::kLanes * kBytes] = {};
  const int64_t bytes = smaller(count * kWordBytes, w.row_bytes - word * kWordBytes);
  for (int64_t r = 0; r < smaller(V::kLanes, w.rows - row); ++r) {
    std::memcpy(edge + r * kBytes, from + r * w.row_bytes + word * kWordBytes,
                static_cast<size_t>(bytes));
  }
  V::transpose(edge, kBytes, out);
  return 0;
}

/// Calls take(s, vector) for words word + s, 0 <= s < count, of rows [row, row + kLanes), with
/// outputs in the lanes and zeros past the last row.
template <typename V, typename Take>
[[gnu::always_inline]] inline void take_block(const WeightRows& w, int64_t row, int64_t word,
                                              int64_t count, Take take) {
  typename V::U32 block[V::kLanes];
  if (row + V::kLanes <= w.rows && count == V::kLanes &&
      (word + V::kLanes) * kWordBytes <= w.row_bytes) {
    V::transpose(w.data + row * w.row_bytes + word * kWordBytes, w.row_bytes, block);
    for (int s = 0; s < V::kLanes; ++s) take(s, block[s]);
    return;
  }
  typename V::U32 parts[V::kLanes];
  const int64_t begin = load_edge<V>(w, row, word, count, parts);
  for (int64_t s = 0; s < count; ++s) take(s, parts[begin + s]);
}

/// Fetches a piece of the stream as large as a block of `count` words, and steps over it. (GCC 12
/// drops calls of a function that does nothing but prefetch.)
template <typename V>
inline void prefetch_block(const char*& ahead, int64_t count) {
  constexpr int64_t kBytes = V::kLanes * V::kLanes * kWordBytes;
  const int64_t bytes = count * V::kLanes * kWordBytes;
  if (bytes == kBytes) {
    for (int64_t i = 0; i < kBytes; i += 64) __builtin_prefetch(ahead + i, 0, 2);
  } else {
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(ahead + i, 0, 2);
  }
  ahead += bytes;
}

/// kDirectVectors vectors of outputs from `row` on, by kRows rows of x.
template <typename V, typename F, int kRows>
inline void direct_block(float* out, int64_t out_stride, const WeightRows& w, int64_t row,
                         const uint32_t* x) {
  constexpr int kVectors = V::kDirectVectors;
  constexpr int kOutputs = kVectors * V::kLanes;
  typename V::F32 acc[kVectors][kRows];
  for (auto& of_vector : acc) {
    for (auto& a : of_vector) a = V::zero();
  }
  const auto take = [&](int v, typename V::U32 word, const uint32_t* at)
      __attribute__((always_inline)) {
    typename V::U32 steps[F::kSteps];
    F::expand(word, steps);
    for (int t = 0; t < F::kSteps; ++t) {
      for (int i = 0; i < kRows; ++i) {
        acc[v][i] = F::Op::step(acc[v][i], steps[t], V::set1_word(at + t * kRows + i));
      }
    }
  };
  // The rows after these are the next piece of one contiguous stream.
  const char* ahead = w.data + (row + kOutputs) * w.row_bytes;
  for_blocks<V>(
      w, [&](int64_t word, int64_t count) __attribute__((always_inline)) {
        const uint32_t* at = x + word * F::kSteps * kRows;
        for (int v = 0; v < kVectors; ++v) {
          prefetch_block<V>(ahead, count);
          take_block<V>(
              w, row + v * V::kLanes, word,
              count, [&](int64_t s, typename V::U32 vector) __attribute__((always_inline)) {
                take(v, vector, at + s * F::kSteps * kRows);
              });
        }
      });
  for (int v = 0; v < kVectors; ++v) {
    for (int i = 0; i < kRows; ++i) V::store(out + i * out_stride + v * V::kLanes, acc[v][i]);
  }
}

template <typename V, WeightFormat kFormat, int kRows>
void direct_tile(float* out, int64_t out_stride, const WeightRows& w, const uint32_t* x) {
  for (int64_t row = 0; row < w.rows; row += V::kDirectVectors * V::kLanes) {
    direct_block<V, Format<V, kFormat>, kRows>(out + row, out_stride, w, row, x);
  }
}

template <typename V, WeightFormat kFormat>
void make_panels(uint32_t* panels, const WeightRows& w) {
  using F = Format<V, kFormat>;
  constexpr int64_t kOutputs = V::kPanelVectors * V::kLanes;
  const int64_t words = words_of(w);
  for (int64_t first = 0; first < w.rows; first += kOutputs) {
    for (int64_t row = first; row < first + kOutputs; row += V::kLanes) {
      uint32_t* to = panels + first * words * F::kSteps + (row - first);
      for_blocks<V>(
          w, [&](int64_t word, int64_t count) __attribute__((always_inline)) {
            take_block<V>(
                w, row, word,
                count, [&](int64_t s, typename V::U32 vector) __attribute__((always_inline)) {
                  typename V::U32 steps[F::kSteps];
                  F::expand(vector, steps);
                  for (int t = 0; t < F::kSteps; ++t) {
                    V::store_words(to + (s * F::kSteps + t) * kOutputs, steps[t]);
                  }
                });
            to += count * F::kSteps * kOutputs;
          });
    }
  }
}

template <typename V, typename Op, int kRows>
void panel_tile(float* out, int64_t out_stride, const uint32_t* panels, int64_t outputs,
                const uint32_t* x, int64_t steps, const char* prefetch) {
  constexpr int kVectors = V::kPanelVectors;
  constexpr int kOutputs = kVectors * V::kLanes;
  for (int64_t j = 0; j < outputs; j += kOutputs) {
    const uint32_t* w = panels + j * steps;
    typename V::F32 acc[kVectors][kRows];
    for (auto& of_vector : acc) {
      for (auto& a : of_vector) a = V::zero();
    }
    for (int64_t s = 0; s < steps; ++s) {
      typename V::U32 weights[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        weights[v] = V::load_words(w + s * kOutputs + v * V::kLanes);
      }
      if (prefetch != nullptr) {
        for (int i = 0; i < kOutputs * kWordBytes; i += 64) __builtin_prefetch(prefetch + i, 0, 2);
        prefetch += kOutputs * kWordBytes;
      }
      for (int i = 0; i < kRows; ++i) {
        const typename V::U32 value = V::set1_word(x + s * kRows + i);
        for (int v = 0; v < kVectors; ++v) acc[v][i] = Op::step(acc[v][i], weights[v], value);
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      for (int i = 0; i < kRows; ++i) {
        V::store(out + i * out_stride + j + v * V::kLanes, acc[v][i]);
      }
    }
  }
}

enum class Rounding { kNone, kBF16, kBF16Pairs };

/// Words [word, word + kLanes) of one row of x, zeros past k.
template <typename V, Rounding kRounding>
inline void words_of_x(uint32_t* to, const float* x, int64_t word, int64_t k) {
  constexpr int kPerWord = kRounding == Rounding::kBF16Pairs ? 2 : 1;
  constexpr int kFloats = V::kLanes * kPerWord;
  alignas(64) float values[kFloats] = {};
  const int64_t first = word * kPerWord;
  std::memcpy(values, x + first,
              static_cast<size_t>(larger(0, smaller(kFloats, k - first))) * sizeof(float));
  if constexpr (kRounding == Rounding::kNone) {
    std::memcpy(to, values, sizeof values);
  } else {
    alignas(64) uint16_t rounded[kFloats];
    for (int i = 0; i < kFloats; i += V::kLanes) V::store_bf16(rounded + i, V::load(values + i));
    if constexpr (kRounding == Rounding::kBF16Pairs) {
      std::memcpy(to, rounded, sizeof rounded);
    } else {
      for (int i = 0; i < kFloats; ++i) to[i] = uint32_t{rounded[i]} << 16;
    }
  }
}

template <typename V, Rounding kRounding>
void pack_tile(uint32_t* to, const float* x, int64_t k, int64_t num_rows) {
  const int64_t pairs = (k + kColumnUnit - 1) / kColumnUnit * kColumnUnit / 2;
  const int64_t steps = kRounding == Rounding::kBF16Pairs ? pairs : 2 * pairs;
  const int64_t size = steps * num_rows;
  alignas(64) uint32_t rows[V::kLanes][V::kLanes] = {};
  for (int64_t word = 0; word < steps; word += V::kLanes) {
    const int64_t count = smaller(V::kLanes, steps - word);
    for (int64_t i = 0; i < num_rows; ++i) {
      words_of_x<V, kRounding>(rows[i], x + i * k, word, k);
    }
    if (num_rows == 1) {
      std::memcpy(to + word, rows[0], static_cast<size_t>(count) * sizeof(uint32_t));
      continue;
    }
    typename V::U32 block[V::kLanes];
    V::transpose(reinterpret_cast<const char*>(rows), V::kLanes * kWordBytes, block);
    for (int64_t s = 0; s < count; ++s) {
      // A store of all lanes runs into later steps, which are written later; not past the end.
      const int64_t at = (word + s) * num_rows;
      if (at + V::kLanes <= size) {
        V::store_words(to + at, block[s]);
      } else {
        uint32_t last[V::kLanes];
        V::store_words(last, block[s]);
        std::memcpy(to + at, last, static_cast<size_t>(num_rows) * sizeof(uint32_t));
      }
    }
  }
}

template <typename V, WeightFormat kFormat, int kRows = 1>
constexpr void fill_direct(MatmulKernels& table) {
  table.direct[static_cast<int>(kFormat)][kRows - 1] = direct_tile<V, kFormat, kRows>;
  if constexpr (kRows < V::kDirectRows) fill_direct<V, kFormat, kRows + 1>(table);
}

template <typename V, int kRows = 1>
constexpr void fill_panel(MatmulKernels& table) {
  table.panel_fma[kRows - 1] = panel_tile<V, Fma<V>, kRows>;
  if constexpr (V::kHasDot) table.panel_dot[kRows - 1] = panel_tile<V, Dot<V>, kRows>;
  if constexpr (kRows < V::kTileRows) fill_panel<V, kRows + 1>(table);
}

template <typename V, WeightFormat kFormat>
constexpr void fill_format(MatmulKernels& table) {
  table.make_panels[static_cast<int>(kFormat)] = make_panels<V, kFormat>;
  fill_direct<V, kFormat>(table);
}

template <typename V>
constexpr MatmulKernels make_matmul_kernels() {
  static_assert(V::kTileRows <= kMaxTileRows && V::kTileRows <= V::kLanes);
  static_assert(V::kDirectRows <= V::kTileRows);
  MatmulKernels table{};
  table.panel_outputs = V::kPanelVectors * V::kLanes;
  table.tile_rows = V::kTileRows;
  table.direct_rows = V::kDirectRows;
  table.has_dot = V::kHasDot;
  table.pack_floats = pack_tile<V, Rounding::kNone>;
  table.pack_rounded = pack_tile<V, Rounding::kBF16>;
  table.pack_pairs = pack_tile<V, Rounding::kBF16Pairs>;
  fill_format<V, WeightFormat::kF32>(table);
  fill_format<V, WeightFormat::kF16>(table);
  fill_format<V, WeightFormat::kBF16>(table);
  if constexpr (V::kHasDot) fill_format<V, WeightFormat::kBF16Pairs>(table);
  fill_panel<V>(table);
  fill_packed<V>(table);
  table.silu_mul = silu_mul<V>;
  return table;
}

}  // namespace
}  // namespace llm
