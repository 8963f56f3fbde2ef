// Barriers and warp collectives under CUDA's names.
//
// Every function takes the place of its call last, so that reports can name it. Checked for all
// collectives: the caller is in the mask, no lane of it has exited or doesn't exist, all lanes make
// the same call at the same line. None of them, __syncwarp() aside, orders memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

#include "cuda/emu/thread.h"

inline constexpr int warpSize = ::llm::emu::kWarpSize;

namespace llm::emu {

/// A lane's part in an exchange of values of at most 8 bytes.
struct Exchange {
  uint64_t value = 0;   // bits, zero-extended
  int source = 0;       // lane to read
  bool flag = false;    // predicate in, predicate out
  uint64_t result = 0;  // bits
};

/// Results of the exchanges (warp.cpp).
void combine_shuffle(const WarpOperands& lanes);
void combine_ballot(const WarpOperands& lanes);
void combine_match_any(const WarpOperands& lanes);
void combine_match_all(const WarpOperands& lanes);
void combine_sum(const WarpOperands& lanes);
void combine_and(const WarpOperands& lanes);
void combine_or(const WarpOperands& lanes);
void combine_xor(const WarpOperands& lanes);
void combine_min_signed(const WarpOperands& lanes);
void combine_max_signed(const WarpOperands& lanes);
void combine_min_unsigned(const WarpOperands& lanes);
void combine_max_unsigned(const WarpOperands& lanes);

template <typename T>
uint64_t bits_of(T value) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <typename T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

template <typename T>
T exchange(const char* name, uint32_t mask, T value, int source, Combine combine, Place place) {
  Exchange lane{.value = bits_of(value), .source = source};
  warp_collective(name, mask, &lane, combine, place);
  return from_bits<T>(lane.result);
}

inline uint32_t ballot(const char* name, uint32_t mask, bool predicate, Place place) {
  Exchange lane{.flag = predicate};
  warp_collective(name, mask, &lane, combine_ballot, place);
  return static_cast<uint32_t>(lane.result);
}

/// First lane of the caller's group of `width` lanes.
inline int segment_begin(int width) { return self->lane & ~(width - 1); }

}  // namespace llm::emu

// ---- Barriers and fences ----

inline void __syncthreads(llm::emu::Place place = {}) {
  llm::emu::sync_block("__syncthreads", true, place);
}
inline int __syncthreads_and(int predicate, llm::emu::Place place = {}) {
  return llm::emu::sync_block("__syncthreads_and", predicate != 0, place).all;
}
inline int __syncthreads_or(int predicate, llm::emu::Place place = {}) {
  return llm::emu::sync_block("__syncthreads_or", predicate != 0, place).num_true > 0;
}
inline int __syncthreads_count(int predicate, llm::emu::Place place = {}) {
  return llm::emu::sync_block("__syncthreads_count", predicate != 0, place).num_true;
}
inline void __syncwarp(unsigned mask = llm::emu::kFullMask, llm::emu::Place place = {}) {
  llm::emu::warp_collective("__syncwarp", mask, nullptr, nullptr, place);
}

inline void __threadfence() { llm::emu::thread_fence(); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { llm::emu::thread_fence(); }

// ---- Shuffles: a value of the named lane, or the caller's own where that lies outside ----

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize,
              llm::emu::Place place = {}) {
  const int lane = llm::emu::segment_begin(width) + (source & (width - 1));
  return llm::emu::exchange("__shfl_sync", mask, value, lane, llm::emu::combine_shuffle, place);
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                 llm::emu::Place place = {}) {
  const int own = llm::emu::self->lane;
  const int lane = own - static_cast<int>(delta);
  return llm::emu::exchange("__shfl_up_sync", mask, value,
                            lane < llm::emu::segment_begin(width) ? own : lane,
                            llm::emu::combine_shuffle, place);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                   llm::emu::Place place = {}) {
  const int own = llm::emu::self->lane;
  const int lane = own + static_cast<int>(delta);
  return llm::emu::exchange("__shfl_down_sync", mask, value,
                            lane >= llm::emu::segment_begin(width) + width ? own : lane,
                            llm::emu::combine_shuffle, place);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize,
                  llm::emu::Place place = {}) {
  const int own = llm::emu::self->lane;
  const int lane = own ^ lane_mask;
  return llm::emu::exchange("__shfl_xor_sync", mask, value,
                            lane >= llm::emu::segment_begin(width) + width ? own : lane,
                            llm::emu::combine_shuffle, place);
}

// ---- Votes and matches ----

inline unsigned __ballot_sync(unsigned mask, int predicate, llm::emu::Place place = {}) {
  return llm::emu::ballot("__ballot_sync", mask, predicate != 0, place);
}
inline int __any_sync(unsigned mask, int predicate, llm::emu::Place place = {}) {
  return llm::emu::ballot("__any_sync", mask, predicate != 0, place) != 0;
}
inline int __all_sync(unsigned mask, int predicate, llm::emu::Place place = {}) {
  return llm::emu::ballot("__all_sync", mask, predicate != 0, place) == mask;
}
inline int __uni_sync(unsigned mask, int predicate, llm::emu::Place place = {}) {
  const unsigned votes = llm::emu::ballot("__uni_sync", mask, predicate != 0, place);
  return votes == 0 || votes == mask;
}

template <typename T>
unsigned __match_any_sync(unsigned mask, T value, llm::emu::Place place = {}) {
  llm::emu::Exchange lane{.value = llm::emu::bits_of(value)};
  llm::emu::warp_collective("__match_any_sync", mask, &lane, llm::emu::combine_match_any, place);
  return static_cast<unsigned>(lane.result);
}

template <typename T>
unsigned __match_all_sync(unsigned mask, T value, int* all_equal, llm::emu::Place place = {}) {
  llm::emu::Exchange lane{.value = llm::emu::bits_of(value)};
  llm::emu::warp_collective("__match_all_sync", mask, &lane, llm::emu::combine_match_all, place);
  *all_equal = lane.flag;
  return static_cast<unsigned>(lane.result);
}

// ---- Reductions of 32-bit integers ----

inline unsigned __reduce_add_sync(unsigned mask, unsigned value, llm::emu::Place place = {}) {
  return llm::emu::exchange("__reduce_add_sync", mask, value, 0, llm::emu::combine_sum, place);
}
inline int __reduce_add_sync(unsigned mask, int value, llm::emu::Place place = {}) {
  return llm::emu::exchange("__reduce_add_sync", mask, value, 0, llm::emu::combine_sum, place);
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value, llm::emu::Place place = {}) {
  return llm::emu::exchange("__reduce_min_sync", mask, value, 0, llm::emu::combine_min_unsigned,
                            place);
}
inline int __reduce_min_sync(unsigned mask, int value, llm::emu::Place place = {}) {
  return llm::emu::exchange("__reduce_min_sync", mask, value, 0, llm::emu::combine_min_signed,
                            place);
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value, llm::emu::Place place = {}) {
  return llm::emu::exchange("__reduce_max_sync", mask, value, 0, llm::emu::combine_max_unsigned,
                            place);
}
inline int __reduce_max_sync(unsigned mask, int value, llm::emu::Place place = {}) {
  return llm::emu::exchange("__reduce_max_sync", mask, value, 0, llm::emu::combine_max_signed,
                            place);
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value, llm::emu::Place place = {}) {
  return llm::emu::exchange("__reduce_and_sync", mask, value, 0, llm::emu::combine_and, place);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, llm::emu::Place place = {}) {
  return llm::emu::exchange("__reduce_or_sync", mask, value, 0, llm::emu::combine_or, place);
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value, llm::emu::Place place = {}) {
  return llm::emu::exchange("__reduce_xor_sync", mask, value, 0, llm::emu::combine_xor, place);
}
