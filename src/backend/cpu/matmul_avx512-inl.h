// What the matrix products need of 512-bit vectors beyond vec_avx512.h. The same names are in
// matmul_avx2.cpp and matmul_generic.cpp:
//   kPanelVectors x kTileRows  accumulators of the panel kernel
//   kDirectVectors             vectors of outputs that the direct kernel takes in turn
//   kDirectRows                most rows of x for the direct kernel
//   transpose(p, stride, out)  kLanes words of kLanes rows: out[s] holds word s of every row
#pragma once

// GCC 12's own AVX-512 header uses a variable uninitialised on purpose, and warns of it.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include "backend/cpu/matmul_kernels-inl.h"
#include "backend/cpu/vec_avx512.h"

namespace llm {
namespace {

struct MatmulAvx512 : VecAvx512 {
  static constexpr bool kHasDot = false;
  static constexpr int kPanelVectors = 2;
  static constexpr int kTileRows = 12;
  static constexpr int kDirectVectors = 1;
  static constexpr int kDirectRows = 8;

  static U32 load_words(const void* p) { return _mm512_loadu_si512(p); }
  static void store_words(uint32_t* p, U32 v) { _mm512_storeu_si512(p, v); }
  static U32 set1_word(const uint32_t* p) { return _mm512_set1_epi32(static_cast<int>(*p)); }
  static F32 as_floats(U32 v) { return _mm512_castsi512_ps(v); }
  static U32 low_to_high(U32 v) { return _mm512_slli_epi32(v, 16); }
  static U32 high_to_low(U32 v) { return _mm512_srli_epi32(v, 16); }
  static U32 keep_high(U32 v) {
    return _mm512_and_si512(v, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
  }
  static U32 widen_low_halves(U32 v) {
    return _mm512_castps_si512(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)));
  }
  static U32 as_words(F32 v) { return _mm512_castps_si512(v); }
  static U32 shift_right(U32 v, int n) { return _mm512_srli_epi32(v, static_cast<unsigned>(n)); }
  static U32 bits_and(U32 v, uint32_t mask) {
    return _mm512_and_si512(v, _mm512_set1_epi32(static_cast<int>(mask)));
  }
  static U32 bits_or(U32 a, U32 b) { return _mm512_or_si512(a, b); }
  static F32 from_ints(U32 v) { return _mm512_cvtepi32_ps(v); }
  static U32 add_halves(U32 a, U32 b) { return _mm512_add_epi16(a, b); }
  /// BF16 of i - 15 for each half i, 0 .. 31.
  static U32 less_15_as_bf16(U32 i) {
    alignas(64) static constexpr uint16_t kTable[32] = {
        0xc170, 0xc160, 0xc150, 0xc140, 0xc130, 0xc120, 0xc110, 0xc100, 0xc0e0, 0xc0c0, 0xc0a0,
        0xc080, 0xc040, 0xc000, 0xbf80, 0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0,
        0x40e0, 0x4100, 0x4110, 0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170, 0x4180};
    return _mm512_permutexvar_epi16(i, _mm512_load_si512(kTable));
  }
  static F32 div(F32 a, F32 b) { return _mm512_div_ps(a, b); }
  static F32 minus_abs(F32 v) { return _mm512_or_ps(v, _mm512_set1_ps(-0.0f)); }
  /// a where sign < 0, else b.
  static F32 select_negative(F32 sign, F32 a, F32 b) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(sign, zero(), _CMP_LT_OQ), b, a);
  }

  /// Sixteen loads of a cache line (where rows are aligned) and 64 shuffles.
  static void transpose(const char* p, int64_t stride, U32* out) {
    U32 t[16], u[16];
    for (int i = 0; i < 16; i += 4) {  // t[i + j]: word 4 g + j of rows i..i+3 in 128-bit lane g
      const U32 r0 = load_words(p + i * stride), r1 = load_words(p + (i + 1) * stride);
      const U32 r2 = load_words(p + (i + 2) * stride), r3 = load_words(p + (i + 3) * stride);
      const U32 a = _mm512_unpacklo_epi32(r0, r1), b = _mm512_unpackhi_epi32(r0, r1);
      const U32 c = _mm512_unpacklo_epi32(r2, r3), d = _mm512_unpackhi_epi32(r2, r3);
      t[i] = _mm512_unpacklo_epi64(a, c);
      t[i + 1] = _mm512_unpackhi_epi64(a, c);
      t[i + 2] = _mm512_unpacklo_epi64(b, d);
      t[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
    for (int j = 0; j < 4; ++j) {  // a 4 x 4 transpose of 128-bit lanes
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
};

}  // namespace
}  // namespace llm
