// Device functions under CUDA's names that the CUDA headers declare for nvcc alone: arithmetic,
// bits, conversions, loads and stores. Where the GPU approximates (__expf, rsqrtf), these are exact
// to float32: tests keep tolerances for the difference.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstring>

#include "cuda/emu/thread.h"

// ---- min, max ----

#define LLM_EMU_MIN_MAX(T)                         \
  inline T min(T a, T b) { return b < a ? b : a; } \
  inline T max(T a, T b) { return a < b ? b : a; }
LLM_EMU_MIN_MAX(int)
LLM_EMU_MIN_MAX(unsigned)
LLM_EMU_MIN_MAX(long)
LLM_EMU_MIN_MAX(unsigned long)
LLM_EMU_MIN_MAX(long long)
LLM_EMU_MIN_MAX(unsigned long long)
#undef LLM_EMU_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline unsigned umin(unsigned a, unsigned b) { return min(a, b); }
inline unsigned umax(unsigned a, unsigned b) { return max(a, b); }

// ---- float32 ----

// Declared by the C library's headers as its own; defined in intrinsics.cpp.
extern "C" {
float __expf(float) noexcept;
float __logf(float) noexcept;
float __log2f(float) noexcept;
float __log10f(float) noexcept;
float __exp10f(float) noexcept;
float __sinf(float) noexcept;
float __cosf(float) noexcept;
float __tanf(float) noexcept;
float __powf(float, float) noexcept;
}

inline float rsqrtf(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0F / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __saturatef(float x) { return x > 0 ? fminf(x, 1.0F) : 0.0F; }

// ---- Bits ----

namespace llm::emu {

template <typename To, typename From>
To bit_copy(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(static_cast<void*>(&to), &from, sizeof(To));
  return to;
}

/// Rounds by nearbyint's mode-free cousins and saturates as the GPU does; NaN becomes 0.
template <typename Int>
Int saturate(double rounded) {
  constexpr double kLow = static_cast<double>(std::numeric_limits<Int>::min());
  constexpr double kHigh = static_cast<double>(std::numeric_limits<Int>::max());
  if (std::isnan(rounded)) return 0;
  if (rounded <= kLow) return std::numeric_limits<Int>::min();
  if (rounded >= kHigh) return std::numeric_limits<Int>::max();
  return static_cast<Int>(rounded);
}

}  // namespace llm::emu

inline unsigned __float_as_uint(float x) { return llm::emu::bit_copy<unsigned>(x); }
inline int __float_as_int(float x) { return llm::emu::bit_copy<int>(x); }
inline float __uint_as_float(unsigned x) { return llm::emu::bit_copy<float>(x); }
inline float __int_as_float(int x) { return llm::emu::bit_copy<float>(x); }
inline long long __double_as_longlong(double x) { return llm::emu::bit_copy<long long>(x); }
inline double __longlong_as_double(long long x) { return llm::emu::bit_copy<double>(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
  return reversed;
}

/// Four bytes picked from b:a (a low) by the nibbles of the selector; bit 3 of a nibble copies the
/// byte's sign instead.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned nibble = selector >> (4 * i) & 0xf;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (nibble & 7))) & 0xff;
    if ((nibble & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(both << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(both >> (shift & 31));
}

// ---- Integers ----

inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
/// sum + dot product of four signed bytes.
inline int __dp4a(int a, int b, int sum) {
  for (int shift = 0; shift < 32; shift += 8) {
    sum += static_cast<signed char>(a >> shift) * static_cast<signed char>(b >> shift);
  }
  return sum;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
  for (int shift = 0; shift < 32; shift += 8) sum += (a >> shift & 0xff) * (b >> shift & 0xff);
  return sum;
}

// ---- Conversions between float32 and integers ----

inline int __float2int_rn(float x) { return llm::emu::saturate<int>(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return llm::emu::saturate<int>(std::trunc(x)); }
inline int __float2int_rd(float x) { return llm::emu::saturate<int>(std::floor(x)); }
inline int __float2int_ru(float x) { return llm::emu::saturate<int>(std::ceil(x)); }
inline unsigned __float2uint_rn(float x) { return llm::emu::saturate<unsigned>(std::nearbyint(x)); }
inline unsigned __float2uint_rz(float x) { return llm::emu::saturate<unsigned>(std::trunc(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }

// ---- 16-bit floats: rounded once ----

inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return __double2bfloat16(static_cast<double>(__bfloat162float(a)) * __bfloat162float(b) +
                           __bfloat162float(c));
}
inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
inline __half __hfma(__half a, __half b, __half c) {
  return __double2half(static_cast<double>(__half2float(a)) * __half2float(b) + __half2float(c));
}
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return {__hfma(__low2half(a), __low2half(b), __low2half(c)),
          __hfma(__high2half(a), __high2half(b), __high2half(c))};
}

// ---- Loads and stores with cache hints ----

template <typename T>
T __ldg(const T* p) {
  return *p;
}
template <typename T>
T __ldcs(const T* p) {
  return *p;
}
template <typename T>
T __ldcg(const T* p) {
  return *p;
}
template <typename T>
T __ldca(const T* p) {
  return *p;
}
template <typename T>
void __stcs(T* p, T value) {
  *p = value;
}
template <typename T>
void __stcg(T* p, T value) {
  *p = value;
}

// ---- Others ----

inline void __nanosleep(unsigned, llm::emu::Place place = {}) { llm::emu::yield_thread(place); }
inline void __trap(llm::emu::Place place = {}) { llm::emu::fail_thread("__trap", place); }
/// Only differences mean something on a GPU; the emulator has no clock.
inline long long clock64() { return 0; }
