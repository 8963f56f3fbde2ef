// Sixteen float lanes with AVX-512 F, BW, DQ, VL. Included by *_avx512*.cpp only; where the object
// is built for the BF16 extension, dot() is its instruction.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace llm {
namespace {

struct VecAvx512 {
  using F32 = __m512;
  using U32 = __m512i;
  static constexpr int kLanes = 16;
  // Register tiles of the attention kernel: queries x KV blocks, queries x head_dim vectors.
  static constexpr int kTileQueries = 4;
  static constexpr int kTileBlocks = 4;
  static constexpr int kTileDims = 4;

  static F32 zero() { return _mm512_setzero_ps(); }
  static F32 set1(float x) { return _mm512_set1_ps(x); }
  static F32 load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F32 v) { _mm512_storeu_ps(p, v); }
  static F32 add(F32 a, F32 b) { return _mm512_add_ps(a, b); }
  static F32 sub(F32 a, F32 b) { return _mm512_sub_ps(a, b); }
  static F32 mul(F32 a, F32 b) { return _mm512_mul_ps(a, b); }
  static F32 fma(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }
  static F32 max(F32 a, F32 b) { return _mm512_max_ps(a, b); }
  static float sum(F32 v) { return _mm512_reduce_add_ps(v); }
  static float largest(F32 v) { return _mm512_reduce_max_ps(v); }

  // Pairs of BF16 as 32-bit words, the even element in the low half.
  static U32 load_pairs(const uint16_t* p) { return _mm512_loadu_si512(p); }
  static U32 set1_pair(const uint16_t* p) {
    int w;
    std::memcpy(&w, p, sizeof w);
    return _mm512_set1_epi32(w);
  }
  /// acc + a.even * b.even + a.odd * b.odd
  static F32 dot(F32 acc, U32 a, U32 b) {
#ifdef __AVX512BF16__
    return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
#else
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    acc = fma(_mm512_castsi512_ps(_mm512_slli_epi32(a, 16)),
              _mm512_castsi512_ps(_mm512_slli_epi32(b, 16)), acc);
    return fma(_mm512_castsi512_ps(_mm512_and_si512(a, high)),
               _mm512_castsi512_ps(_mm512_and_si512(b, high)), acc);
#endif
  }
  /// kLanes BF16 values, widened.
  static F32 load_bf16(const uint16_t* p) {
    const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
  }
  /// Rounded to BF16, nearest even; a NaN stays one.
  static void store_bf16(uint16_t* p, F32 v) {
    const __m512i u = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_srli_epi32(
        _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd), 16);
    const __m512i bits = _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q),
                                               _mm512_set1_epi32(0x7fc0));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(bits));
  }
  /// kLanes values of 8 bits, widened. The E4M3 ones are no NaN.
  static F32 load_i8(const std::byte* p) {
    const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(raw));
  }
  static F32 load_f8e4m3(const std::byte* p) {
    const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return widen_f8e4m3(_mm512_cvtepu8_epi32(raw));
  }
  /// The same from the low bytes of words. The product is exact for subnormals too.
  static F32 widen_f8e4m3(U32 u) {
    const __m512i magnitude = _mm512_slli_epi32(_mm512_and_si512(u, _mm512_set1_epi32(0x7f)), 20);
    const __m512i sign = _mm512_slli_epi32(_mm512_and_si512(u, _mm512_set1_epi32(0x80)), 24);
    const __m512 value = _mm512_mul_ps(_mm512_castsi512_ps(magnitude),
                                       _mm512_set1_ps(0x1p120f));  // bias 7 to 127
    return _mm512_or_ps(value, _mm512_castsi512_ps(sign));
  }
  /// Values that BF16 holds exactly.
  static void store_exact_bf16(uint16_t* p, F32 v) {
    const __m512i bits = _mm512_srli_epi32(_mm512_castps_si512(v), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(bits));
  }
  /// 2^n * v for integral n in [-126, 127].
  static F32 scale_by_power(F32 v, F32 n) { return _mm512_scalef_ps(v, n); }
  static F32 round(F32 v) {
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  /// 0 where x < limit, else v (also where x is NaN).
  static F32 zero_below(F32 v, F32 x, F32 limit) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), v);
  }
};

}  // namespace
}  // namespace llm
