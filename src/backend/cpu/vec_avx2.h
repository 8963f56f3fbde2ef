// Eight float lanes with AVX2 and FMA. Included by *_avx2.cpp only.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace llm {
namespace {

struct VecAvx2 {
  using F32 = __m256;
  using U32 = __m256i;
  static constexpr int kLanes = 8;
  // Register tiles of the attention kernel: queries x KV blocks, queries x head_dim vectors.
  static constexpr int kTileQueries = 2;
  static constexpr int kTileBlocks = 2;
  static constexpr int kTileDims = 4;

  static F32 zero() { return _mm256_setzero_ps(); }
  static F32 set1(float x) { return _mm256_set1_ps(x); }
  static F32 load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F32 v) { _mm256_storeu_ps(p, v); }
  static F32 add(F32 a, F32 b) { return _mm256_add_ps(a, b); }
  static F32 sub(F32 a, F32 b) { return _mm256_sub_ps(a, b); }
  static F32 mul(F32 a, F32 b) { return _mm256_mul_ps(a, b); }
  static F32 fma(F32 a, F32 b, F32 c) { return _mm256_fmadd_ps(a, b, c); }
  static F32 max(F32 a, F32 b) { return _mm256_max_ps(a, b); }
  static float sum(F32 v) {
    const __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 q = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
  }
  static float largest(F32 v) {
    const __m128 h = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 q = _mm_max_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
  }

  // Pairs of BF16 as 32-bit words, the even element in the low half.
  static U32 load_pairs(const uint16_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static U32 set1_pair(const uint16_t* p) {
    int w;
    std::memcpy(&w, p, sizeof w);
    return _mm256_set1_epi32(w);
  }
  /// acc + a.even * b.even + a.odd * b.odd
  static F32 dot(F32 acc, U32 a, U32 b) {
    const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    acc = fma(_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)),
              _mm256_castsi256_ps(_mm256_slli_epi32(b, 16)), acc);
    return fma(_mm256_castsi256_ps(_mm256_and_si256(a, high)),
               _mm256_castsi256_ps(_mm256_and_si256(b, high)), acc);
  }
  /// kLanes BF16 values, widened.
  static F32 load_bf16(const uint16_t* p) {
    const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
  }
  /// Rounded to BF16, nearest even; a NaN stays one.
  static void store_bf16(uint16_t* p, F32 v) {
    const __m256i u = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_srli_epi32(
        _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd), 16);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i bits = _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), nan);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(bits, bits), 0x88);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
  /// kLanes values of 8 bits, widened. The E4M3 ones are no NaN.
  static F32 load_i8(const std::byte* p) {
    const __m128i raw = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(raw));
  }
  static F32 load_f8e4m3(const std::byte* p) {
    const __m128i raw = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return widen_f8e4m3(_mm256_cvtepu8_epi32(raw));
  }
  /// The same from the low bytes of words. The product is exact for subnormals too.
  static F32 widen_f8e4m3(U32 u) {
    const __m256i magnitude = _mm256_slli_epi32(_mm256_and_si256(u, _mm256_set1_epi32(0x7f)), 20);
    const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(u, _mm256_set1_epi32(0x80)), 24);
    const __m256 value = _mm256_mul_ps(_mm256_castsi256_ps(magnitude),
                                       _mm256_set1_ps(0x1p120f));  // bias 7 to 127
    return _mm256_or_ps(value, _mm256_castsi256_ps(sign));
  }
  /// Values that BF16 holds exactly.
  static void store_exact_bf16(uint16_t* p, F32 v) {
    const __m256i bits = _mm256_srli_epi32(_mm256_castps_si256(v), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(bits, bits), 0x88);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
  /// 2^n * v for integral n in [-126, 127].
  static F32 scale_by_power(F32 v, F32 n) {
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23)));
  }
  static F32 round(F32 v) {
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  /// 0 where x < limit, else v (also where x is NaN).
  static F32 zero_below(F32 v, F32 x, F32 limit) {
    return _mm256_and_ps(v, _mm256_cmp_ps(x, limit, _CMP_NLT_UQ));
  }
};

}  // namespace
}  // namespace llm
