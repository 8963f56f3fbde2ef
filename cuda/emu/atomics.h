// Atomics under CUDA's names: real ones, since blocks run on several operating-system threads.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <type_traits>

namespace llm::emu {

/// The unsigned integer of T's size.
template <typename T>
using AtomicBits = std::conditional_t<sizeof(T) == 8, unsigned long long,
                                      std::conditional_t<sizeof(T) == 4, unsigned, unsigned short>>;

/// *address = update(*address), atomically; returns the old value.
template <typename T, typename Update>
T atomic_update(T* address, Update update) {
  using Bits = AtomicBits<T>;
  static_assert(sizeof(Bits) == sizeof(T));
  Bits* const bits = reinterpret_cast<Bits*>(address);
  Bits old = __atomic_load_n(bits, __ATOMIC_SEQ_CST);
  for (;;) {
    T value;
    std::memcpy(static_cast<void*>(&value), &old, sizeof(T));
    const T next = update(value);
    Bits desired;
    std::memcpy(&desired, &next, sizeof(T));
    if (__atomic_compare_exchange_n(bits, &old, desired, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST)) {
      return value;
    }
  }
}

}  // namespace llm::emu

#define LLM_EMU_INTEGER_ATOMICS(T)                                                                 \
  inline T atomicAdd(T* address, T value) {                                                        \
    return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);                                   \
  }                                                                                                \
  inline T atomicSub(T* address, T value) {                                                        \
    return __atomic_fetch_sub(address, value, __ATOMIC_SEQ_CST);                                   \
  }                                                                                                \
  inline T atomicAnd(T* address, T value) {                                                        \
    return __atomic_fetch_and(address, value, __ATOMIC_SEQ_CST);                                   \
  }                                                                                                \
  inline T atomicOr(T* address, T value) {                                                         \
    return __atomic_fetch_or(address, value, __ATOMIC_SEQ_CST);                                    \
  }                                                                                                \
  inline T atomicXor(T* address, T value) {                                                        \
    return __atomic_fetch_xor(address, value, __ATOMIC_SEQ_CST);                                   \
  }                                                                                                \
  inline T atomicExch(T* address, T value) {                                                       \
    return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);                                  \
  }                                                                                                \
  inline T atomicCAS(T* address, T expected, T value) {                                            \
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST,                \
                                __ATOMIC_SEQ_CST);                                                 \
    return expected;                                                                               \
  }                                                                                                \
  inline T atomicMin(T* address, T value) {                                                        \
    return llm::emu::atomic_update(address, [value](T old) { return old < value ? old : value; }); \
  }                                                                                                \
  inline T atomicMax(T* address, T value) {                                                        \
    return llm::emu::atomic_update(address, [value](T old) { return old > value ? old : value; }); \
  }
LLM_EMU_INTEGER_ATOMICS(int)
LLM_EMU_INTEGER_ATOMICS(unsigned)
LLM_EMU_INTEGER_ATOMICS(unsigned long long)
#undef LLM_EMU_INTEGER_ATOMICS

inline float atomicAdd(float* address, float value) {
  return llm::emu::atomic_update(address, [value](float old) { return old + value; });
}
inline double atomicAdd(double* address, double value) {
  return llm::emu::atomic_update(address, [value](double old) { return old + value; });
}
inline __nv_bfloat162 atomicAdd(__nv_bfloat162* address, __nv_bfloat162 value) {
  return llm::emu::atomic_update(address,
                                 [value](__nv_bfloat162 old) { return __hadd2(old, value); });
}
inline float atomicExch(float* address, float value) {
  return llm::emu::atomic_update(address, [value](float) { return value; });
}
/// Counts up to `limit`, then starts again at 0.
inline unsigned atomicInc(unsigned* address, unsigned limit) {
  return llm::emu::atomic_update(address,
                                 [limit](unsigned old) { return old >= limit ? 0 : old + 1; });
}
/// Counts down to 0, then starts again at `limit`.
inline unsigned atomicDec(unsigned* address, unsigned limit) {
  return llm::emu::atomic_update(
      address, [limit](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}
