// What `g++ -fsanitize=thread` makes compiled code call at each access to memory, defined here
// instead of by the compiler's own library: kernels' accesses go to the race detector. This file
// and the emulator are compiled without that flag.
#include "cuda/emu/race/race_detector.h"

namespace llm::emu {
namespace {

using Kind = RaceDetector::Kind;

void note(const void* p, size_t bytes, Kind kind, const void* return_address) {
  if (self == nullptr || !race_detector.is_watched(p)) return;
  race_detector.access(p, bytes, kind, race_detector.origins().of(return_address));
}

/// Notes an atomic, and lets `run` do it.
template <typename T, typename Run>
T atomic(const volatile T* p, const void* return_address, Run run) {
  const void* const address = const_cast<const T*>(p);
  note(address, sizeof(T), Kind::kAtomic, return_address);
  const T result = run();
  if (self != nullptr) race_detector.order_by_atomic(address);
  return result;
}

}  // namespace
}  // namespace llm::emu

using llm::emu::atomic;
using llm::emu::Kind;
using llm::emu::note;

#define LLM_CALLER __builtin_return_address(0)

#define LLM_ACCESS(bytes)                                                                   \
  void __tsan_read##bytes(void* p) { note(p, bytes, Kind::kRead, LLM_CALLER); }             \
  void __tsan_write##bytes(void* p) { note(p, bytes, Kind::kWrite, LLM_CALLER); }           \
  void __tsan_unaligned_read##bytes(void* p) { note(p, bytes, Kind::kRead, LLM_CALLER); }   \
  void __tsan_unaligned_write##bytes(void* p) { note(p, bytes, Kind::kWrite, LLM_CALLER); } \
  void __tsan_volatile_read##bytes(void* p) { note(p, bytes, Kind::kRead, LLM_CALLER); }    \
  void __tsan_volatile_write##bytes(void* p) { note(p, bytes, Kind::kWrite, LLM_CALLER); }

#define LLM_FETCH(bits, T, operation)                                                      \
  T __tsan_atomic##bits##_fetch_##operation(volatile T* p, T value, int) {                 \
    return atomic(p, LLM_CALLER,                                                           \
                  [=] { return __atomic_fetch_##operation(p, value, __ATOMIC_SEQ_CST); }); \
  }

#define LLM_EXCHANGE(bits, T, strength)                                                           \
  int __tsan_atomic##bits##_compare_exchange_##strength(volatile T* p, T* expected, T value, int, \
                                                        int) {                                    \
    return atomic(p, LLM_CALLER, [=] {                                                            \
             const bool done = __atomic_compare_exchange_n(p, expected, value, false,             \
                                                           __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);   \
             return static_cast<T>(done);                                                         \
           }) != 0;                                                                               \
  }

#define LLM_ATOMICS(bits, T)                                                                       \
  T __tsan_atomic##bits##_load(const volatile T* p, int) {                                         \
    return atomic(p, LLM_CALLER, [=] { return __atomic_load_n(p, __ATOMIC_SEQ_CST); });            \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile T* p, T value, int) {                                  \
    atomic(p, LLM_CALLER, [=] {                                                                    \
      __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                                \
      return value;                                                                                \
    });                                                                                            \
  }                                                                                                \
  T __tsan_atomic##bits##_exchange(volatile T* p, T value, int) {                                  \
    return atomic(p, LLM_CALLER, [=] { return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST); }); \
  }                                                                                                \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T expected, T value, int, int) {     \
    return atomic(p, LLM_CALLER, [=]() mutable {                                                   \
      __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
      return expected;                                                                             \
    });                                                                                            \
  }                                                                                                \
  LLM_EXCHANGE(bits, T, strong)                                                                    \
  LLM_EXCHANGE(bits, T, weak)                                                                      \
  LLM_FETCH(bits, T, add)                                                                          \
  LLM_FETCH(bits, T, sub)                                                                          \
  LLM_FETCH(bits, T, and)                                                                          \
  LLM_FETCH(bits, T, or)                                                                           \
  LLM_FETCH(bits, T, xor)                                                                          \
  LLM_FETCH(bits, T, nand)

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}

LLM_ACCESS(1)
LLM_ACCESS(2)
LLM_ACCESS(4)
LLM_ACCESS(8)
LLM_ACCESS(16)
void __tsan_read_range(void* p, size_t bytes) { note(p, bytes, Kind::kRead, LLM_CALLER); }
void __tsan_write_range(void* p, size_t bytes) { note(p, bytes, Kind::kWrite, LLM_CALLER); }

LLM_ATOMICS(8, unsigned char)
LLM_ATOMICS(16, unsigned short)
LLM_ATOMICS(32, unsigned)
LLM_ATOMICS(64, unsigned long)

}  // extern "C"
