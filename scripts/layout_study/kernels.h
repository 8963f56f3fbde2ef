// Kernels of the layout study. Weights are BF16 unless said; k counts elements, n outputs.
//   A  row-major, k in the lanes: 16 (8) partial sums per output and a reduction at the end
//   B  panels [n/lanes][k/2][lanes][2], outputs in the lanes: one sum per output, k ascending
//   C  row-major read in place, transposed in registers: the arithmetic of B
// Activations: A [m][k] (FP32: evens and odds of each vector apart), B and C tiles of kMr rows
// [m/kMr][k/2][kMr][2].
#pragma once

#include <algorithm>

#include "arithmetic.h"

namespace study {

inline void prefetch_lines(const char* p, int bytes) {
  for (int i = 0; i < bytes; i += 64) _mm_prefetch(p + i, _MM_HINT_T1);
}

/// A: kRows rows by kMr activations at once.
template <class T, int kRows, int kMr, bool kPrefetch>
void rows_a(const uint16_t* w, const typename T::X* x, float* y, int64_t n0, int64_t n1, int64_t k,
            int64_t m, int64_t n) {
  for (int64_t i0 = 0; i0 + kMr <= m; i0 += kMr) {
    for (int64_t j = n0; j < n1; j += kRows) {
      typename T::Acc acc[kRows][kMr];
      for (auto& row : acc) {
        for (auto& a : row) a = T::zero();
      }
      const uint16_t* rows = w + j * k;
      for (int64_t p = 0; p < k; p += 2 * T::kLanes) {
        for (int r = 0; r < kRows; ++r) {
          const auto pairs = T::load(rows + r * k + p);
          for (int i = 0; i < kMr; ++i) {
            acc[r][i] = T::mac_lanes(acc[r][i], pairs, x + (i0 + i) * k + p);
          }
        }
        if (kPrefetch) {
          prefetch_lines(reinterpret_cast<const char*>(rows + kRows * k + kRows * p),
                         kRows * 4 * T::kLanes);
        }
      }
      for (int r = 0; r < kRows; ++r) {
        for (int i = 0; i < kMr; ++i) y[(i0 + i) * n + j + r] = T::sum(acc[r][i]);
      }
    }
  }
}

/// B: one tile of kBlocks vectors of outputs by kMr activations over all of k.
template <class T, int kBlocks, int kMr, bool kPrefetch>
void tile_b(const char* panels, const typename T::X* x, float* y, int64_t k, int64_t n) {
  typename T::Acc acc[kBlocks][kMr];
  for (auto& row : acc) {
    for (auto& a : row) a = T::zero();
  }
  const int64_t panel_bytes = T::kLanes * k * 2;
  for (int64_t p = 0; p < k / 2; ++p) {
    typename T::Weights w[kBlocks];
    for (int b = 0; b < kBlocks; ++b) {
      w[b] = T::widen(T::load(panels + b * panel_bytes + p * T::kLanes * 4));
      if (kPrefetch) {
        prefetch_lines(panels + (b + kBlocks) * panel_bytes + p * T::kLanes * 4, T::kLanes * 4);
      }
    }
    for (int i = 0; i < kMr; ++i) {
      const auto xv = T::spread(x + (p * kMr + i) * 2);
      for (int b = 0; b < kBlocks; ++b) acc[b][i] = T::mac(acc[b][i], w[b], xv);
    }
  }
  for (int b = 0; b < kBlocks; ++b) {
    for (int i = 0; i < kMr; ++i) T::store(y + i * n + b * T::kLanes, acc[b][i]);
  }
}

template <class T, int kBlocks, int kMr, bool kPrefetch>
void lanes_b(const uint16_t* panels, const typename T::X* x, float* y, int64_t n0, int64_t n1,
             int64_t k, int64_t m, int64_t n) {
  for (int64_t j = n0; j < n1; j += kBlocks * T::kLanes) {
    const char* block = reinterpret_cast<const char*>(panels + j * k);
    for (int64_t i = 0; i + kMr <= m; i += kMr) {
      tile_b<T, kBlocks, kMr, kPrefetch>(block, x + i * k, y + i * n + j, k, n);
    }
  }
}

/// C at few rows of x, transposed in registers: one vector of outputs by kMr activations.
template <class T, int kMr, bool kPrefetch, bool kFullLines>
void lanes_c(const uint16_t* w, const typename T::X* x, float* y, int64_t n0, int64_t n1, int64_t k,
             int64_t m, int64_t n) {
  constexpr int kStep = kFullLines ? T::kLanes : 4;  // pairs
  for (int64_t j = n0; j < n1; j += T::kLanes) {
    const char* block = reinterpret_cast<const char*>(w + j * k);
    for (int64_t i0 = 0; i0 + kMr <= m; i0 += kMr) {
      const typename T::X* xt = x + i0 * k;
      typename T::Acc acc[kMr];
      for (auto& a : acc) a = T::zero();
      for (int64_t p = 0; p < k / 2; p += kStep) {
        typename T::Pairs pairs[kStep];
        if constexpr (kFullLines) {
          T::transpose_lines(block + p * 4, k * 2, pairs);
        } else {
          T::transpose4(block + p * 4, k * 2, pairs);
        }
        // The rows after these are one contiguous piece of memory.
        if (kPrefetch && i0 == 0) {
          prefetch_lines(block + T::kLanes * (k * 2 + p * 4), kStep * T::kLanes * 4);
        }
        for (int s = 0; s < kStep; ++s) {
          const auto wide = T::widen(pairs[s]);
          for (int i = 0; i < kMr; ++i) {
            acc[i] = T::mac(acc[i], wide, T::spread(xt + ((p + s) * kMr + i) * 2));
          }
        }
      }
      for (int i = 0; i < kMr; ++i) T::store(y + (i0 + i) * n + j, acc[i]);
    }
  }
}

/// Row-major rows [n0, n1) into panels: B's one-time repack, and C's scratch for many rows of x.
template <class T>
void repack(const uint16_t* w, uint16_t* panels, int64_t n0, int64_t n1, int64_t k) {
  for (int64_t j = n0; j < n1; j += T::kLanes) {
    const char* block = reinterpret_cast<const char*>(w + j * k);
    char* out = reinterpret_cast<char*>(panels + (j - n0) * k);
    for (int64_t p = 0; p < k / 2; p += T::kLanes) {
      typename T::Pairs pairs[T::kLanes];
      T::transpose_lines(block + p * 4, k * 2, pairs);
      for (int s = 0; s < T::kLanes; ++s) T::store(out + (p + s) * T::kLanes * 4, pairs[s]);
      prefetch_lines(block + T::kLanes * (k * 2 + p * 4), T::kLanes * T::kLanes * 4);
    }
  }
}

/// B at many rows of x: a chunk of outputs stays in L2 while the tiles of x pass by.
template <class T, int kBlocks, int kMr>
void gemm_panels(const uint16_t* panels, const typename T::X* x, float* y, int64_t outputs,
                 int64_t k, int64_t m, int64_t n) {
  for (int64_t i = 0; i + kMr <= m; i += kMr) {
    lanes_b<T, kBlocks, kMr, false>(panels, x + i * k, y + i * n, 0, outputs, k, kMr, n);
  }
}

/// Outputs per chunk so that the chunk's panels take a good part of L2.
inline int64_t chunk_outputs(int64_t k) {
  return std::max<int64_t>(64, (384 << 10) / (2 * k) / 64 * 64);
}

template <class T, int kBlocks, int kMr>
void gemm_b(const uint16_t* panels, const typename T::X* x, float* y, int64_t n0, int64_t n1,
            int64_t k, int64_t m, int64_t n) {
  const int64_t chunk = chunk_outputs(k);
  for (int64_t j = n0; j < n1; j += chunk) {
    gemm_panels<T, kBlocks, kMr>(panels + j * k, x, y + j, std::min(chunk, n1 - j), k, m, n);
  }
}

/// C at many rows of x: each chunk is transposed into scratch first.
template <class T, int kBlocks, int kMr>
void gemm_c(const uint16_t* w, const typename T::X* x, float* y, int64_t n0, int64_t n1, int64_t k,
            int64_t m, int64_t n) {
  alignas(64) static thread_local uint16_t scratch[512 << 10];
  const int64_t chunk = chunk_outputs(k);
  for (int64_t j = n0; j < n1; j += chunk) {
    const int64_t end = std::min(j + chunk, n1);
    repack<T>(w, scratch, j, end, k);
    gemm_panels<T, kBlocks, kMr>(scratch, x, y + j, end - j, k, m, n);
  }
}

/// Bytes of one row of W4 weights, and FP32 scales per row, group 128.
inline int64_t w4_row_bytes(int64_t k) { return k / 2; }

/// Nibbles 4s..4s+3 of every 16-bit half become a pair of BF16 values -8..7.
inline __m512i w4_pairs(__m512i packed, __m512i table, int s) {
  return _mm512_permutexvar_epi16(_mm512_srli_epi16(packed, 4 * s), table);
}

inline __m512i w4_table() {
  alignas(64) uint16_t t[32];
  for (int i = 0; i < 32; ++i) t[i] = bf16_of(static_cast<float>((i & 15) - 8));
  return _mm512_load_si512(t);
}

/// The nibbles' table has 32 equal halves, so bits above a nibble need no mask but the fifth.
/// W4 A: [n][k/2 bytes], 64 bytes = one group of 128 k; B: [n/16][k/8][16 lanes][4 bytes].
template <bool kPanels, int kBlocks, int kMr>
void w4_dot(const uint8_t* w, const float* scales, const uint16_t* x, float* y, int64_t n0,
            int64_t n1, int64_t k, int64_t m, int64_t n) {
  const __m512i table = w4_table();
  constexpr int kOut = kPanels ? 16 * kBlocks : kBlocks;
  const int64_t groups = k / 128;
  for (int64_t j = n0; j < n1; j += kOut) {
    for (int64_t i0 = 0; i0 + kMr <= m; i0 += kMr) {
      __m512 acc[kBlocks][kMr];
      for (auto& row : acc) {
        for (auto& a : row) a = _mm512_setzero_ps();
      }
      for (int64_t g = 0; g < groups; ++g) {
        for (int b = 0; b < kBlocks; ++b) {
          __m512 part[kMr];
          for (auto& a : part) a = _mm512_setzero_ps();
          const uint8_t* wg =
              kPanels ? w + (j + 16 * b) * (k / 2) + g * 1024 : w + (j + b) * (k / 2) + g * 64;
          for (int v = 0; v < (kPanels ? 16 : 1); ++v) {
            const __m512i packed = _mm512_loadu_si512(wg + 64 * v);
            if (kPanels && i0 == 0) _mm_prefetch(wg + 64 * v + 8192, _MM_HINT_T0);
            for (int s = 0; s < 4; ++s) {
              const __m512i pairs = w4_pairs(packed, table, s);
              for (int i = 0; i < kMr; ++i) {
                part[i] =
                    kPanels
                        ? Dot::mac(part[i], pairs,
                                   Dot::spread(x + i0 * k + ((g * 64 + v * 4 + s) * kMr + i) * 2))
                        : Dot::mac_lanes(part[i], pairs, x + (i0 + i) * k + g * 128 + s * 32);
              }
            }
          }
          const __m512 scale = kPanels ? _mm512_loadu_ps(scales + (j + 16 * b) * groups + g * 16)
                                       : _mm512_set1_ps(scales[(j + b) * groups + g]);
          for (int i = 0; i < kMr; ++i) acc[b][i] = _mm512_fmadd_ps(part[i], scale, acc[b][i]);
        }
      }
      for (int b = 0; b < kBlocks; ++b) {
        for (int i = 0; i < kMr; ++i) {
          if (kPanels) {
            _mm512_storeu_ps(y + (i0 + i) * n + j + 16 * b, acc[b][i]);
          } else {
            y[(i0 + i) * n + j + b] = _mm512_reduce_add_ps(acc[b][i]);
          }
        }
      }
    }
  }
}

}  // namespace study
