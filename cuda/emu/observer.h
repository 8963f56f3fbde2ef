// Who watches the memory accesses of kernels: nobody, but for the race build (race/).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/emu/kernel_launch.h"
#include "cuda/emu/shared_arena.h"

namespace llm::emu {

/// Told of everything that orders accesses, and of those that compiled code doesn't tell itself.
/// All calls come from one operating-system thread; those within a block concern `self`.
class Observer {
 public:
  virtual ~Observer() = default;

  virtual void begin_launch(const KernelLaunch& launch) = 0;
  /// Returns what was wrong.
  virtual std::vector<std::string> end_launch() = 0;
  /// The arena must outlive the block.
  virtual void begin_block(int64_t block, const SharedArena& arena) = 0;

  /// All threads of the block wait for each other.
  virtual void sync_block() = 0;
  /// Lanes `mask` of this thread's warp do.
  virtual void sync_warp(uint32_t mask) = 0;
  /// __threadfence().
  virtual void fence() = 0;

  virtual void read(const void* p, size_t bytes, Place place) = 0;
  /// cp.async: at its issue, and when a wait finishes it.
  virtual void start_copy(const void* shared, const void* global, size_t bytes, Place place) = 0;
  virtual void finish_copy(const void* shared, Place place) = 0;
};

/// Null where nobody watches. The race build links its own instead of observer_none.cpp.
Observer* observer();
inline bool has_observer() { return observer() != nullptr; }

}  // namespace llm::emu
