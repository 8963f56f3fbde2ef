#include "backend/cpu/matmul_kernels-inl.h"
#include "backend/cpu/vec_generic.h"

namespace llm {
namespace {

/// The names are explained in matmul_avx512-inl.h.
struct MatmulGeneric : VecGeneric {
  static constexpr bool kHasDot = false;
  static constexpr int kPanelVectors = 2;
  static constexpr int kTileRows = 4;
  static constexpr int kDirectVectors = 2;
  static constexpr int kDirectRows = 2;

  static U32 load_words(const void* p) {
    U32 v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static void store_words(uint32_t* p, U32 v) { std::memcpy(p, &v, sizeof v); }
  static U32 set1_word(const uint32_t* p) { return U32{*p, *p, *p, *p}; }
  static F32 as_floats(U32 v) {
    F32 f;
    std::memcpy(&f, &v, sizeof f);
    return f;
  }
  static U32 as_words(F32 v) {
    U32 u;
    std::memcpy(&u, &v, sizeof u);
    return u;
  }
  static U32 low_to_high(U32 v) { return v << 16; }
  static U32 high_to_low(U32 v) { return v >> 16; }
  static U32 keep_high(U32 v) { return v & 0xffff0000u; }
  /// binary16 in binary32's place has an exponent 112 too small; infinity and NaN need all ones.
  static U32 widen_low_halves(U32 v) {
    const F32 scaled = as_floats((v & 0x7fffu) << 13) * set1(0x1p112f);
    const U32 special = U32(scaled >= set1(65536.0f)) & 0x7f800000u;
    return as_words(scaled) | special | ((v & 0x8000u) << 16);
  }
  static U32 shift_right(U32 v, int n) { return v >> n; }
  static U32 bits_and(U32 v, uint32_t mask) { return v & mask; }
  static U32 bits_or(U32 a, U32 b) { return a | b; }
  static F32 from_ints(U32 v) {
    return F32{static_cast<float>(v[0]), static_cast<float>(v[1]), static_cast<float>(v[2]),
               static_cast<float>(v[3])};
  }
  static F32 div(F32 a, F32 b) { return a / b; }
  static F32 minus_abs(F32 v) { return as_floats(as_words(v) | 0x80000000u); }
  /// a where sign < 0, else b.
  static F32 select_negative(F32 sign, F32 a, F32 b) { return sign < zero() ? a : b; }

  static void transpose(const char* p, int64_t stride, U32* out) {
    U32 row[4];
    for (int i = 0; i < 4; ++i) row[i] = load_words(p + i * stride);
    for (int s = 0; s < 4; ++s) out[s] = U32{row[0][s], row[1][s], row[2][s], row[3][s]};
  }
};

}  // namespace

extern constinit const MatmulKernels kMatmulGeneric = make_matmul_kernels<MatmulGeneric>();

}  // namespace llm
