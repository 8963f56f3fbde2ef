// Four float lanes in portable C++ (GCC and clang vector extensions), for any CPU.
// Included by one *_generic.cpp each, so everything here stays local to that object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace llm {
namespace {

struct VecGeneric {
  typedef float F32 __attribute__((vector_size(16)));
  typedef uint32_t U32 __attribute__((vector_size(16)));
  static constexpr int kLanes = 4;
  // Register tiles of the attention kernel: queries x KV blocks, queries x head_dim vectors.
  static constexpr int kTileQueries = 1;
  static constexpr int kTileBlocks = 1;
  static constexpr int kTileDims = 4;

  static F32 zero() { return F32{}; }
  static F32 set1(float x) { return F32{x, x, x, x}; }
  static F32 load(const float* p) {
    F32 v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(float* p, F32 v) { std::memcpy(p, &v, sizeof v); }
  static F32 add(F32 a, F32 b) { return a + b; }
  static F32 sub(F32 a, F32 b) { return a - b; }
  static F32 mul(F32 a, F32 b) { return a * b; }
  static F32 fma(F32 a, F32 b, F32 c) { return a * b + c; }
  static F32 max(F32 a, F32 b) { return a > b ? a : b; }
  static float sum(F32 v) { return (v[0] + v[2]) + (v[1] + v[3]); }
  static float largest(F32 v) {
    const float a = v[0] > v[1] ? v[0] : v[1];
    const float b = v[2] > v[3] ? v[2] : v[3];
    return a > b ? a : b;
  }

  // Pairs of BF16 as 32-bit words, the even element in the low half.
  static U32 load_pairs(const uint16_t* p) {
    U32 v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static U32 set1_pair(const uint16_t* p) {
    uint32_t w;
    std::memcpy(&w, p, sizeof w);
    return U32{w, w, w, w};
  }
  /// acc + a.even * b.even + a.odd * b.odd
  static F32 dot(F32 acc, U32 a, U32 b) {
    acc = fma(bits(a << 16), bits(b << 16), acc);
    return fma(bits(a & 0xffff0000u), bits(b & 0xffff0000u), acc);
  }
  /// kLanes BF16 values, widened.
  static F32 load_bf16(const uint16_t* p) { return bits(U32{p[0], p[1], p[2], p[3]} << 16); }
  /// Rounded to BF16, nearest even; a NaN stays one.
  static void store_bf16(uint16_t* p, F32 v) {
    U32 u;
    std::memcpy(&u, &v, sizeof u);
    u = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    for (int i = 0; i < kLanes; ++i) p[i] = v[i] == v[i] ? static_cast<uint16_t>(u[i]) : 0x7fc0;
  }
  /// kLanes values of 8 bits, widened. The E4M3 ones are no NaN.
  static F32 load_i8(const std::byte* p) {
    F32 v;
    for (int i = 0; i < kLanes; ++i) v[i] = static_cast<float>(static_cast<int8_t>(p[i]));
    return v;
  }
  static F32 load_f8e4m3(const std::byte* p) {
    U32 u;
    for (int i = 0; i < kLanes; ++i) u[i] = static_cast<uint32_t>(p[i]);
    return widen_f8e4m3(u);
  }
  /// The same from the low bytes of words. The product is exact for subnormals too.
  static F32 widen_f8e4m3(U32 u) {
    const F32 magnitude = bits((u & 0x7fu) << 20) * 0x1p120f;  // bias 7 to 127
    U32 m;
    std::memcpy(&m, &magnitude, sizeof m);
    return bits(m | (u & 0x80u) << 24);
  }
  /// Values that BF16 holds exactly.
  static void store_exact_bf16(uint16_t* p, F32 v) {
    U32 u;
    std::memcpy(&u, &v, sizeof u);
    for (int i = 0; i < kLanes; ++i) p[i] = static_cast<uint16_t>(u[i] >> 16);
  }
  /// 2^n * v for integral n in [-126, 127].
  static F32 scale_by_power(F32 v, F32 n) {
    const F32 biased = n + 127.0f;
    U32 u;
    for (int i = 0; i < kLanes; ++i) u[i] = static_cast<uint32_t>(biased[i]) << 23;
    return v * bits(u);
  }
  static F32 round(F32 v) {
    const F32 magic = set1(12582912.0f);  // 1.5 * 2^23: the addition rounds to an integer
    return (v + magic) - magic;
  }
  /// 0 where x < limit, else v (also where x is NaN).
  static F32 zero_below(F32 v, F32 x, F32 limit) { return x < limit ? zero() : v; }

 private:
  static F32 bits(U32 u) {
    F32 f;
    std::memcpy(&f, &u, sizeof f);
    return f;
  }
};

}  // namespace
}  // namespace llm
