// Vector arithmetic of the layout study: one struct per way to multiply 16-bit weights.
//
// A "pair" is two neighbouring elements of k, 32 bits of a weight row. Every struct offers the same
// names, so that the kernels of kernels.h are written once:
//   kLanes                      outputs (or k-pairs) in one vector
//   X                           element type of the activations
//   Acc, Pairs                  a vector of sums, a vector of weight pairs
//   widen(pairs), spread(x)     operands of mac: weights; one pair of x in every lane
//   mac(acc, w, x)              outputs in the lanes
//   mac_lanes(acc, pairs, x)    k in the lanes: x points at kLanes pairs
//   transpose4(rows, stride)    four pairs of kLanes rows, outputs in the lanes
//   transpose_lines             kLanes pairs of kLanes rows
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace study {

inline uint16_t bf16_of(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

inline float float_of(uint16_t x) {
  const uint32_t u = uint32_t{x} << 16;
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}

/// 512-bit vectors of 16 pairs.
struct Wide {
  static constexpr int kLanes = 16;
  using Acc = __m512;
  using Pairs = __m512i;
  static Acc zero() { return _mm512_setzero_ps(); }
  static Pairs load(const void* p) { return _mm512_loadu_si512(p); }
  static void store(void* p, Pairs v) { _mm512_storeu_si512(p, v); }
  static void store(float* p, Acc v) { _mm512_storeu_ps(p, v); }
  static Acc scale_add(Acc total, Acc part, Acc scale) {
    return _mm512_fmadd_ps(part, scale, total);
  }
  static Acc load_floats(const float* p) { return _mm512_loadu_ps(p); }
  static Acc broadcast(float x) { return _mm512_set1_ps(x); }
  static float sum(Acc v) { return _mm512_reduce_add_ps(v); }

  /// Four 128-bit loads make a vector (rows i, 4 + i, 8 + i, 12 + i), eight unpacks transpose.
  static void transpose4(const char* row, int64_t stride, Pairs out[4]) {
    Pairs v[4];
    for (int i = 0; i < 4; ++i) {
      const char* r = row + i * stride;
      Pairs t = _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(r)));
      t = _mm512_mask_broadcast_i32x4(t, 0x00f0, load128(r + 4 * stride));
      t = _mm512_mask_broadcast_i32x4(t, 0x0f00, load128(r + 8 * stride));
      v[i] = _mm512_mask_broadcast_i32x4(t, 0xf000, load128(r + 12 * stride));
    }
    const Pairs a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpackhi_epi32(v[0], v[1]);
    const Pairs c = _mm512_unpacklo_epi32(v[2], v[3]), d = _mm512_unpackhi_epi32(v[2], v[3]);
    out[0] = _mm512_unpacklo_epi64(a, c);
    out[1] = _mm512_unpackhi_epi64(a, c);
    out[2] = _mm512_unpacklo_epi64(b, d);
    out[3] = _mm512_unpackhi_epi64(b, d);
  }

  /// Sixteen full loads, 64 shuffles: pairs 0..15 of 16 rows.
  static void transpose_lines(const char* row, int64_t stride, Pairs out[16]) {
    Pairs t[16], u[16];
    for (int i = 0; i < 16; i += 4) {
      Pairs v[4];
      for (int j = 0; j < 4; ++j) v[j] = load(row + (i + j) * stride);
      const Pairs a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpackhi_epi32(v[0], v[1]);
      const Pairs c = _mm512_unpacklo_epi32(v[2], v[3]), d = _mm512_unpackhi_epi32(v[2], v[3]);
      t[i] = _mm512_unpacklo_epi64(a, c);
      t[i + 1] = _mm512_unpackhi_epi64(a, c);
      t[i + 2] = _mm512_unpacklo_epi64(b, d);
      t[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
    for (int j = 0; j < 4; ++j) {
      u[j] = _mm512_shuffle_i32x4(t[j], t[4 + j], 0x88);
      u[4 + j] = _mm512_shuffle_i32x4(t[j], t[4 + j], 0xdd);
      u[8 + j] = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0x88);
      u[12 + j] = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0xdd);
    }
    for (int j = 0; j < 4; ++j) {
      out[j] = _mm512_shuffle_i32x4(u[j], u[8 + j], 0x88);
      out[8 + j] = _mm512_shuffle_i32x4(u[j], u[8 + j], 0xdd);
      out[4 + j] = _mm512_shuffle_i32x4(u[4 + j], u[12 + j], 0x88);
      out[12 + j] = _mm512_shuffle_i32x4(u[4 + j], u[12 + j], 0xdd);
    }
  }

 private:
  static __m128i load128(const char* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
};

/// AVX-512 BF16 dot product: two multiply-adds per lane and instruction.
struct Dot : Wide {
  using X = uint16_t;
  static constexpr const char* kName = "BF16 dot, 512 bit";
  using Weights = Pairs;
  static Weights widen(Pairs w) { return w; }
  static Pairs spread(const X* x) {
    int32_t pair;
    std::memcpy(&pair, x, 4);
    return _mm512_set1_epi32(pair);
  }
  static Acc mac(Acc acc, Weights w, Pairs x) {
    return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)x);
  }
  static Acc mac_lanes(Acc acc, Pairs w, const X* x) {
    return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)load(x));
  }
  static X x_of(float f) { return bf16_of(f); }
};

/// Weights widened to FP32, 512-bit FMA.
struct Fma512 : Wide {
  using X = float;
  static constexpr const char* kName = "FP32 FMA, 512 bit";
  static Acc even(Pairs w) { return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16)); }
  static Acc odd(Pairs w) {
    return _mm512_castsi512_ps(_mm512_and_si512(w, _mm512_set1_epi32(-65536)));
  }
  struct Weights {
    Acc even, odd;
  };
  static Weights widen(Pairs w) { return {even(w), odd(w)}; }
  static Weights spread(const X* x) { return {_mm512_set1_ps(x[0]), _mm512_set1_ps(x[1])}; }
  static Acc mac(Acc acc, Weights w, Weights x) {
    return _mm512_fmadd_ps(w.odd, x.odd, _mm512_fmadd_ps(w.even, x.even, acc));
  }
  /// x holds the even elements of 16 pairs, then the odd ones.
  static Acc mac_lanes(Acc acc, Pairs w, const X* x) {
    acc = _mm512_fmadd_ps(even(w), _mm512_loadu_ps(x), acc);
    return _mm512_fmadd_ps(odd(w), _mm512_loadu_ps(x + 16), acc);
  }
  static X x_of(float f) { return f; }
};

/// Weights widened to FP32, 256-bit FMA (AVX2).
struct Fma256 {
  using X = float;
  static constexpr int kLanes = 8;
  static constexpr const char* kName = "FP32 FMA, 256 bit";
  using Acc = __m256;
  using Pairs = __m256i;
  static Acc zero() { return _mm256_setzero_ps(); }
  static Pairs load(const void* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static void store(void* p, Pairs v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  static void store(float* p, Acc v) { _mm256_storeu_ps(p, v); }
  static Acc even(Pairs w) { return _mm256_castsi256_ps(_mm256_slli_epi32(w, 16)); }
  static Acc odd(Pairs w) {
    return _mm256_castsi256_ps(_mm256_and_si256(w, _mm256_set1_epi32(-65536)));
  }
  struct Weights {
    Acc even, odd;
  };
  static Weights widen(Pairs w) { return {even(w), odd(w)}; }
  static Weights spread(const X* x) { return {_mm256_broadcast_ss(x), _mm256_broadcast_ss(x + 1)}; }
  static Acc mac(Acc acc, Weights w, Weights x) {
    return _mm256_fmadd_ps(w.odd, x.odd, _mm256_fmadd_ps(w.even, x.even, acc));
  }
  static Acc mac_lanes(Acc acc, Pairs w, const X* x) {
    acc = _mm256_fmadd_ps(even(w), _mm256_loadu_ps(x), acc);
    return _mm256_fmadd_ps(odd(w), _mm256_loadu_ps(x + 8), acc);
  }
  static float sum(Acc v) {
    float f[8];
    store(f, v);
    return ((f[0] + f[4]) + (f[2] + f[6])) + ((f[1] + f[5]) + (f[3] + f[7]));
  }
  static void transpose4(const char* row, int64_t stride, Pairs out[4]) {
    Pairs v[4];
    for (int i = 0; i < 4; ++i) {
      v[i] = _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(row + (4 + i) * stride),
                                 reinterpret_cast<const __m128i*>(row + i * stride));
    }
    const Pairs a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpackhi_epi32(v[0], v[1]);
    const Pairs c = _mm256_unpacklo_epi32(v[2], v[3]), d = _mm256_unpackhi_epi32(v[2], v[3]);
    out[0] = _mm256_unpacklo_epi64(a, c);
    out[1] = _mm256_unpackhi_epi64(a, c);
    out[2] = _mm256_unpacklo_epi64(b, d);
    out[3] = _mm256_unpackhi_epi64(b, d);
  }
  static void transpose_lines(const char* row, int64_t stride, Pairs out[8]) {
    transpose4(row, stride, out);
    transpose4(row + 16, stride, out + 4);
  }
  static X x_of(float f) { return f; }
};

}  // namespace study
