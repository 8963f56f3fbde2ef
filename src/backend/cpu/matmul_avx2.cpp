#include "backend/cpu/matmul_kernels-inl.h"
#include "backend/cpu/vec_avx2.h"

namespace llm {
namespace {

/// The names are explained in matmul_avx512-inl.h.
struct MatmulAvx2 : VecAvx2 {
  static constexpr bool kHasDot = false;
  static constexpr int kPanelVectors = 2;
  static constexpr int kTileRows = 6;
  static constexpr int kDirectVectors = 2;
  static constexpr int kDirectRows = 4;

  static U32 load_words(const void* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static void store_words(uint32_t* p, U32 v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
  }
  static U32 set1_word(const uint32_t* p) { return _mm256_set1_epi32(static_cast<int>(*p)); }
  static F32 as_floats(U32 v) { return _mm256_castsi256_ps(v); }
  static U32 low_to_high(U32 v) { return _mm256_slli_epi32(v, 16); }
  static U32 high_to_low(U32 v) { return _mm256_srli_epi32(v, 16); }
  static U32 keep_high(U32 v) {
    return _mm256_and_si256(v, _mm256_set1_epi32(static_cast<int>(0xffff0000u)));
  }
  static U32 widen_low_halves(U32 v) {
    const U32 low = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
    const U32 packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x88);
    return _mm256_castps_si256(_mm256_cvtph_ps(_mm256_castsi256_si128(packed)));
  }
  static U32 as_words(F32 v) { return _mm256_castps_si256(v); }
  static U32 shift_right(U32 v, int n) { return _mm256_srli_epi32(v, n); }
  static U32 bits_and(U32 v, uint32_t mask) {
    return _mm256_and_si256(v, _mm256_set1_epi32(static_cast<int>(mask)));
  }
  static U32 bits_or(U32 a, U32 b) { return _mm256_or_si256(a, b); }
  static F32 from_ints(U32 v) { return _mm256_cvtepi32_ps(v); }
  static F32 div(F32 a, F32 b) { return _mm256_div_ps(a, b); }
  static F32 minus_abs(F32 v) { return _mm256_or_ps(v, _mm256_set1_ps(-0.0f)); }
  /// a where sign < 0, else b.
  static F32 select_negative(F32 sign, F32 a, F32 b) {
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(sign, zero(), _CMP_LT_OQ));
  }

  /// Two transposes of four words; rows i and 4 + i share a vector.
  static void transpose(const char* p, int64_t stride, U32* out) {
    for (int word = 0; word < 8; word += 4) {
      U32 v[4];
      for (int i = 0; i < 4; ++i) {
        const char* row = p + i * stride + word * 4;
        v[i] = _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(row + 4 * stride),
                                   reinterpret_cast<const __m128i*>(row));
      }
      const U32 a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpackhi_epi32(v[0], v[1]);
      const U32 c = _mm256_unpacklo_epi32(v[2], v[3]), d = _mm256_unpackhi_epi32(v[2], v[3]);
      out[word] = _mm256_unpacklo_epi64(a, c);
      out[word + 1] = _mm256_unpackhi_epi64(a, c);
      out[word + 2] = _mm256_unpacklo_epi64(b, d);
      out[word + 3] = _mm256_unpackhi_epi64(b, d);
    }
  }
};

}  // namespace

extern constinit const MatmulKernels kMatmulAvx2 = make_matmul_kernels<MatmulAvx2>();

}  // namespace llm
