// What a kernel's code sees of the emulator: who the running CUDA thread is, and the calls at which
// it waits for others. block_runner.cpp implements them.
//
// Each CUDA thread is a fiber. It runs until it must wait; then the first ready thread of its
// block, in the schedule's order, runs on the same operating-system thread.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace llm::emu {

inline constexpr int kWarpSize = 32;
inline constexpr uint32_t kFullMask = 0xffffffff;

/// Where in a kernel a call stands.
struct Place {
  const char* file = __builtin_FILE();
  int line = __builtin_LINE();
};

/// The block that a thread belongs to.
struct BlockShape {
  uint3 block_index{};
  dim3 block_dim;
  dim3 grid_dim;
};

/// The part of a CUDA thread's state that its code reads.
struct KernelThread {
  uint3 thread_index{};
  int index = 0;  // in the block, x running fastest
  int lane = 0;
  const BlockShape* block = nullptr;
  bool waited_for_predecessor = false;  // in this launch
};

/// The CUDA thread that runs on this operating-system thread; null outside kernels. Fibers of a
/// block never move to another operating-system thread.
extern constinit thread_local KernelThread* self;

// ---- Block barriers ----

/// What a barrier tells of the predicates of all threads.
struct BarrierResult {
  int num_true = 0;
  bool all = false;
};

/// Waits until every thread of the block that hasn't exited is here.
BarrierResult sync_block(const char* name, bool predicate, Place place);

// ---- Collectives of a warp ----

/// One call of a collective by all lanes of `mask`, in lane order; null for the others.
struct WarpOperands {
  uint32_t mask = 0;
  void* lane[kWarpSize] = {};
  const char* name = nullptr;
  Place place;

  template <typename T>
  T& at(int i) const {
    return *static_cast<T*>(lane[i]);
  }
  bool has(int i) const { return (mask >> i & 1) != 0; }
};

/// Computes the results of all lanes from their operands, in place.
using Combine = void (*)(const WarpOperands&);

/// Waits until every lane of `mask` made this same call. The last one runs `combine`, which may be
/// null.
void warp_collective(const char* name, uint32_t mask, void* operand, Combine combine, Place place);

// ---- Shared memory ----

/// The block's array of this tag (the address of a static object), laid out at its first use.
void* shared_array(const void* tag, const char* name, size_t bytes, size_t alignment, Place place);
void* dynamic_shared();

/// Fails the thread unless [p, p + bytes) lies in one of the block's shared arrays.
void require_shared(const void* p, size_t bytes, const char* name, Place place);

/// Tells the race build of a read that the emulator makes for the thread.
void note_read(const void* p, size_t bytes, Place place);

// ---- Others ----

/// Makes the accesses before it visible to other blocks before those after it.
void thread_fence();

/// Lets other threads run: for loops that wait for a value.
void yield_thread(Place place);

/// Reports what this thread did wrong and abandons its block; the launch fails.
[[noreturn]] void fail_thread(const std::string& what, Place place);

// ---- Asynchronous copies of the running thread (cp.async) ----

void start_async_copy(void* shared, const void* global, int bytes, Place place);
void commit_async_copies();
/// Finishes all but the `pending` latest groups.
void wait_async_copies(int pending);

}  // namespace llm::emu
