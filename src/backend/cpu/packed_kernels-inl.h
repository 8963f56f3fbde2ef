// Matrix products over packed weights (quant/packed_matrix.h): bodies of the tables in
// matmul_kernels.h. A panel's codes have outputs in consecutive words, so nothing is transposed.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/matmul_steps-inl.h"
#include "quant/packed_matrix.h"

namespace llm {
namespace {

/// How one word of codes becomes kSteps vectors of weights without their scale: floats, or pairs of
/// BF16, which hold all of them exactly.
template <typename V, CodeType kType, bool kPairs>
struct Codes {
  static constexpr int kColumns = kType == CodeType::kU4 ? 8 : 4;
  static constexpr int kSteps = kPairs ? kColumns / 2 : kColumns;
  static constexpr int kShift = kType == CodeType::kU4 ? 4 : 8;
  static constexpr uint32_t kMask = kType == CodeType::kU4 ? 0xf : 0xff;
  using U32 = typename V::U32;
  using F32 = typename V::F32;

  /// Zeros of kLanes outputs as floats; `zeros` null: the same for all.
  static F32 zeros_of(const uint8_t* zeros, int32_t zero) {
    if constexpr (kType == CodeType::kF8E4M3) return V::zero();
    if (zeros == nullptr) return V::set1(static_cast<float>(zero));
    alignas(64) float values[V::kLanes];
    for (int i = 0; i < V::kLanes; ++i) values[i] = static_cast<float>(zeros[i]);
    return V::load(values);
  }

  static F32 value(U32 code, F32 zeros) {
    if constexpr (kType == CodeType::kF8E4M3) {
      return V::widen_f8e4m3(code);
    } else {
      return V::sub(V::from_ints(code), zeros);
    }
  }

  static void expand(U32 word, F32 zeros, U32* out) {
    for (int i = 0; i < kColumns / 2; ++i) {
      const U32 pair = V::shift_right(word, i * kShift);
      const F32 even = value(V::bits_and(pair, kMask), zeros);
      const F32 odd = value(V::bits_and(V::high_to_low(pair), kMask), zeros);
      if constexpr (kPairs) {
        out[i] = V::bits_or(V::high_to_low(V::as_words(even)), V::as_words(odd));
      } else {
        out[2 * i] = V::as_words(even);
        out[2 * i + 1] = V::as_words(odd);
      }
    }
  }
};

/// What the vector instructions have for pairs of 4-bit codes: a table of the 31 values that code
/// minus zero can take.
template <typename V>
requires requires(typename V::U32 halves) { V::less_15_as_bf16(halves); }
struct Codes<V, CodeType::kU4, true> {
  static constexpr int kSteps = 4;
  using U32 = typename V::U32;

  /// 15 - zero of each output, in both halves of its word.
  static U32 zeros_of(const uint8_t* zeros, int32_t zero) {
    alignas(64) uint32_t offsets[V::kLanes];
    for (int i = 0; i < V::kLanes; ++i) {
      const int32_t z = zeros == nullptr ? zero : zeros[i];
      offsets[i] = static_cast<uint32_t>(15 - z) * 0x00010001u;
    }
    return V::load_words(offsets);
  }

  static void expand(U32 word, U32 offsets, U32* out) {
    for (int i = 0; i < kSteps; ++i) {
      const U32 codes = V::bits_and(V::shift_right(word, 4 * i), 0x000f000f);
      out[i] = V::less_15_as_bf16(V::add_halves(codes, offsets));
    }
  }
};

/// Vectors of outputs in a panel.
template <typename V>
constexpr int kVectorsPerPanel = static_cast<int>(kPanelOutputs) / V::kLanes;

/// How far ahead of the codes in use they are asked for.
constexpr int64_t kCodesAhead = 1024;  // words, 4 KiB

/// Zeros of the vector of outputs whose scales begin there.
template <typename C>
auto zeros_at(const PackedPanels& w, int64_t scale_at) {
  return C::zeros_of(w.zeros == nullptr ? nullptr : w.zeros + scale_at, w.zero);
}

/// One vector of outputs by kRows rows of x. `vector` counts them from the first panel on.
template <typename V, typename C, typename Op, int kRows>
inline void direct_codes(float* out, int64_t out_stride, const PackedPanels& w, int64_t vector,
                         const uint32_t* x) {
  const int64_t panel = vector / kVectorsPerPanel<V>;
  const int64_t lane = vector % kVectorsPerPanel<V> * V::kLanes;
  const uint32_t* codes = w.codes + panel * w.words * kPanelOutputs + lane;
  typename V::F32 total[kRows];
  for (auto& t : total) t = V::zero();
  int64_t word = 0;
  for (int64_t group = 0; group < w.groups; ++group) {
    const int64_t scale_at = (panel * w.groups + group) * kPanelOutputs + lane;
    const auto zeros = zeros_at<C>(w, scale_at);
    typename V::F32 acc[kRows];
    for (auto& a : acc) a = V::zero();
    const int64_t end = smaller(word + w.words_per_group, w.words);
    for (; word < end; ++word) {
      __builtin_prefetch(codes + kCodesAhead, 0, 2);
      typename V::U32 steps[C::kSteps];
      C::expand(V::load_words(codes), zeros, steps);
      for (int t = 0; t < C::kSteps; ++t) {
        for (int i = 0; i < kRows; ++i) {
          acc[i] = Op::step(acc[i], steps[t], V::set1_word(x + t * kRows + i));
        }
      }
      codes += kPanelOutputs;
      x += C::kSteps * kRows;
    }
    const typename V::F32 scales = V::load(w.scales + scale_at);
    for (int i = 0; i < kRows; ++i) total[i] = V::fma(scales, acc[i], total[i]);
  }
  for (int i = 0; i < kRows; ++i) V::store(out + i * out_stride + vector * V::kLanes, total[i]);
}

template <typename V, typename C, typename Op, int kRows>
void direct_packed(float* out, int64_t out_stride, const PackedPanels& w, const uint32_t* x) {
  for (int64_t vector = 0; vector < w.panels * kVectorsPerPanel<V>; ++vector) {
    direct_codes<V, C, Op, kRows>(out, out_stride, w, vector, x);
  }
}

template <typename V, typename C>
void make_code_panels(uint32_t* panels, const PackedPanels& w, int64_t outputs) {
  constexpr int64_t kOutputs = V::kPanelVectors * V::kLanes;
  for (int64_t output = 0; output < outputs; output += V::kLanes) {
    uint32_t* to = panels + output / kOutputs * kOutputs * w.words * C::kSteps + output % kOutputs;
    const int64_t panel = output / kPanelOutputs;
    if (panel >= w.panels) {
      const typename V::U32 none = {};
      for (int64_t i = 0; i < w.words * C::kSteps; ++i) V::store_words(to + i * kOutputs, none);
      continue;
    }
    const int64_t lane = output % kPanelOutputs;
    const uint32_t* codes = w.codes + panel * w.words * kPanelOutputs + lane;
    for (int64_t group = 0, word = 0; group < w.groups; ++group) {
      const auto zeros = zeros_at<C>(w, (panel * w.groups + group) * kPanelOutputs + lane);
      const int64_t end = smaller(word + w.words_per_group, w.words);
      for (; word < end; ++word, codes += kPanelOutputs) {
        typename V::U32 steps[C::kSteps];
        C::expand(V::load_words(codes), zeros, steps);
        for (int t = 0; t < C::kSteps; ++t, to += kOutputs) V::store_words(to, steps[t]);
      }
    }
  }
}

template <typename V, typename Op, int kRows>
void scaled_tile(float* out, int64_t out_stride, const uint32_t* panels, int64_t outputs,
                 const uint32_t* x, int64_t steps_per_word, const PackedPanels& w) {
  constexpr int kVectors = V::kPanelVectors;
  constexpr int kOutputs = kVectors * V::kLanes;
  const int64_t steps = w.words * steps_per_word;
  const int64_t steps_per_group = w.words_per_group * steps_per_word;
  for (int64_t j = 0; j < outputs; j += kOutputs) {
    const uint32_t* weights_of = panels + j * steps;
    for (int64_t group = 0, s = 0; group < w.groups; ++group) {
      typename V::F32 acc[kVectors][kRows];
      for (auto& of_vector : acc) {
        for (auto& a : of_vector) a = V::zero();
      }
      const int64_t end = smaller(s + steps_per_group, steps);
      for (; s < end; ++s) {
        typename V::U32 weights[kVectors];
        for (int v = 0; v < kVectors; ++v) {
          weights[v] = V::load_words(weights_of + s * kOutputs + v * V::kLanes);
        }
        for (int i = 0; i < kRows; ++i) {
          const typename V::U32 value = V::set1_word(x + s * kRows + i);
          for (int v = 0; v < kVectors; ++v) acc[v][i] = Op::step(acc[v][i], weights[v], value);
        }
      }
      for (int v = 0; v < kVectors; ++v) {
        const int64_t output = j + v * V::kLanes;
        const int64_t panel = output / kPanelOutputs;
        if (panel >= w.panels) continue;
        const typename V::F32 scales =
            V::load(w.scales + (panel * w.groups + group) * kPanelOutputs + output % kPanelOutputs);
        for (int i = 0; i < kRows; ++i) {
          float* to = out + i * out_stride + output;
          const typename V::F32 before = group == 0 ? V::zero() : V::load(to);
          V::store(to, V::fma(scales, acc[v][i], before));
        }
      }
    }
  }
}

template <typename V, CodeType kType, bool kPairs, int kRows = 1>
constexpr void fill_codes(MatmulKernels& table) {
  using C = Codes<V, kType, kPairs>;
  using Op = std::conditional_t<kPairs, Dot<V>, Fma<V>>;
  const int format = code_format(kType, kPairs);
  table.make_code_panels[format] = make_code_panels<V, C>;
  table.direct_packed[format][kRows - 1] = direct_packed<V, C, Op, kRows>;
  if constexpr (kRows < V::kDirectRows) fill_codes<V, kType, kPairs, kRows + 1>(table);
}

template <typename V, int kRows = 1>
constexpr void fill_scaled(MatmulKernels& table) {
  table.scaled_fma[kRows - 1] = scaled_tile<V, Fma<V>, kRows>;
  if constexpr (V::kHasDot) table.scaled_dot[kRows - 1] = scaled_tile<V, Dot<V>, kRows>;
  if constexpr (kRows < V::kTileRows) fill_scaled<V, kRows + 1>(table);
}

template <typename V>
constexpr void fill_packed(MatmulKernels& table) {
  fill_codes<V, CodeType::kU4, false>(table);
  fill_codes<V, CodeType::kU8, false>(table);
  fill_codes<V, CodeType::kF8E4M3, false>(table);
  if constexpr (V::kHasDot) {
    fill_codes<V, CodeType::kU4, true>(table);
    fill_codes<V, CodeType::kU8, true>(table);
    fill_codes<V, CodeType::kF8E4M3, true>(table);
  }
  fill_scaled<V>(table);
}

}  // namespace
}  // namespace llm
