// Host twins of ptx.cuh, with the same meaning.
//
// mma_bf16 sums the 16 exact products of an output in double and adds the sum to d, rounded once to
// float32. Tensor cores sum in an order and width that isn't documented; tests keep a tolerance.
#pragma once

#include <cstdint>

#include "cuda/emu/thread.h"

namespace llm::ptx {

void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], emu::Place place = {});
void ldmatrix_x4(uint32_t (&r)[4], const void* shared, emu::Place place = {});
void ldmatrix_x4_trans(uint32_t (&r)[4], const void* shared, emu::Place place = {});
uint32_t movmatrix_trans(uint32_t r, emu::Place place = {});

void cp_async_16(void* shared, const void* global, int bytes = 16, emu::Place place = {});
inline void cp_async_commit() { emu::commit_async_copies(); }
template <int kPending>
void cp_async_wait() {
  emu::wait_async_copies(kPending);
}

inline uint4 load_streamed(const void* global) { return *static_cast<const uint4*>(global); }
inline void prefetch_l2(const void*) {}
inline void prefetch_l2_range(const std::byte*, uint32_t) {}
inline uint4 load_cached(const void* global) { return load_streamed(global); }

/// Exact to float32; subnormal results become 0.
float exp2_approx(float x);

/// Launches of a stream run one after the other, but reports tell what needs the wait.
inline void wait_for_predecessor() { emu::self->waited_for_predecessor = true; }
inline void let_successor_start() {}

}  // namespace llm::ptx
