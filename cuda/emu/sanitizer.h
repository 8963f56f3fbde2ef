// The one place that knows whether AddressSanitizer is on: what to tell it of memory and of fibers.
#pragma once

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LLM_EMU_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define LLM_EMU_ASAN 1
#endif

#ifdef LLM_EMU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace llm::emu {

#ifdef LLM_EMU_ASAN

inline constexpr bool kAddressSanitizer = true;

/// From here on no code may touch these bytes.
inline void poison(const void* p, size_t bytes) { __asan_poison_memory_region(p, bytes); }
inline void unpoison(const void* p, size_t bytes) { __asan_unpoison_memory_region(p, bytes); }

/// Before and after a switch to another stack. A null fake_stack: the one left is given up.
inline void start_switch(void** fake_stack, const void* bottom, size_t bytes) {
  __sanitizer_start_switch_fiber(fake_stack, bottom, bytes);
}
inline void finish_switch(void* fake_stack, const void** bottom, size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake_stack, bottom, bytes);
}

#else

inline constexpr bool kAddressSanitizer = false;
inline void poison(const void*, size_t) {}
inline void unpoison(const void*, size_t) {}
inline void start_switch(void**, const void*, size_t) {}
inline void finish_switch(void*, const void**, size_t*) {}

#endif

}  // namespace llm::emu
