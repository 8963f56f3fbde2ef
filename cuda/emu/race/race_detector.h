// Finds accesses of two threads to the same bytes, one of them a write, that nothing orders.
//
// What orders: the same thread; a barrier of the block; __syncwarp() within the warp; a chain of
// atomics between blocks, where both sides passed __threadfence(): the writer's before its atomic
// (its own, or after a barrier that of the thread that does the atomic), the reader's after it (its
// own, or that of a thread before a barrier); the launch before, unless this one overlaps it and
// hasn't waited. Shuffles, votes and mma order nothing. Atomics don't race with each other, nor
// with what the thread that comes after them in the chain stores there. __threadfence_block()
// counts for nothing.
//
// Also reports shared memory that is read before the block writes it, and accesses outside every
// shared array or device allocation. What cp.async reads counts once the copied bytes are read: a
// copy may bring bytes that nobody uses. The order of threads doesn't matter: what isn't ordered is
// found in any schedule.
#pragma once

#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "cuda/emu/async_copies.h"
#include "cuda/emu/device_memory.h"
#include "cuda/emu/observer.h"
#include "cuda/emu/race/access_history.h"
#include "cuda/emu/race/known_work.h"
#include "cuda/emu/race/origins.h"
#include "cuda/emu/race/traffic.h"

namespace llm::emu {

class RaceDetector : public Observer {
 public:
  void begin_launch(const KernelLaunch& launch) override;
  std::vector<std::string> end_launch() override;
  void begin_block(int64_t block, const SharedArena& arena) override;
  void sync_block() override;
  void sync_warp(uint32_t mask) override;
  void fence() override;
  void read(const void* p, size_t bytes, Place place) override {
    access(p, bytes, Kind::kRead, origins_.of(place));
  }
  void start_copy(const void* shared, const void* global, size_t bytes, Place place) override;
  void finish_copy(const void* shared, Place place) override {
    access(shared, AsyncCopies::kCopyBytes, Kind::kCopied, origins_.of(place));
  }

  // ---- For compiled code (tsan_callbacks.cpp) ----

  enum class Kind { kRead, kWrite, kAtomic, kCopied };  // kCopied: a write by cp.async
  void access(const void* p, size_t bytes, Kind kind, uint32_t origin) {
    if (is_watched(p)) access_watched(p, bytes, kind, origin);
  }
  /// Whether p is in shared or device memory, not one of the thread's own variables.
  bool is_watched(const void* p) const {
    const auto address = reinterpret_cast<uintptr_t>(p);
    return address - arena_begin_ < SharedArena::kArenaBytes ||
           address - device_begin_ < DeviceMemory::kMappingBytes;
  }
  /// After an atomic: what it orders.
  void order_by_atomic(const void* p);
  const Origins& origins() const { return origins_; }
  Traffic& traffic() { return traffic_; }

 private:
  struct Thread {
    uint32_t clock = 1;
    uint32_t known_lanes[kWarpSize] = {};   // clocks of the warp's lanes, through __syncwarp()
    uint32_t fenced_lanes[kWarpSize] = {};  // the same, at the last fence
    uint32_t fenced_epoch = 0;              // the barriers before the last fence
    // Of other blocks, since the last barrier: from atomics, and what fences have made visible.
    KnownWork known;
    KnownWork visible;
  };

  /// Where two bytes of shared memory were copied from by cp.async, if they were.
  struct CopySource {
    uintptr_t address = 0;
    Access issue;            // the read that counts once the copied bytes are read
    Access writer;           // of the source, at the issue
    bool is_racing = false;  // with that writer
  };

  void access_watched(const void* p, size_t bytes, Kind kind, uint32_t origin);
  Access make_access(Kind kind, uint32_t origin) const;
  void use_copied(CopySource& source);
  bool is_ordered(const Access& before) const;
  void check_bounds(const void* p, size_t bytes, Kind kind, uint32_t origin, bool is_shared);
  void check(const Access& before, bool before_writes, const Access& now, Kind kind,
             uintptr_t address);
  void access_cell(uintptr_t address, Access now, Kind kind, bool is_shared);
  void remember_reader(Cell& cell, const Access& now);
  void report_race(const Access& before, bool before_writes, const Access& now, Kind kind,
                   uintptr_t address);
  void report_once(const std::string& what, uint32_t origin, const void* p);
  std::string place_of(const void* p) const;
  KnownBlock published_by(const Thread& thread) const;

  AccessHistory history_;
  Origins origins_;
  Traffic traffic_;
  // The launch.
  std::string kernel_;
  bool overlaps_predecessor_ = false;
  uint32_t first_block_ = 1;
  uint32_t first_block_before_ = 1;  // of the launch before
  uint32_t num_blocks_ = 0;
  std::unordered_map<const void*, KnownWork> published_;  // by atomic
  std::vector<std::string> reports_;
  std::set<std::tuple<std::string, uint32_t, uint32_t>> seen_;
  // The block.
  const SharedArena* arena_ = nullptr;
  const DeviceMemory* memory_ = nullptr;
  uintptr_t arena_begin_ = 0;
  uintptr_t device_begin_ = 0;
  uint32_t block_ = 0;
  uint32_t epoch_ = 0;
  std::vector<Thread> threads_;
  std::vector<uint32_t> fenced_before_barrier_;  // clocks, by thread
  uint32_t fenced_epoch_ = 0;                    // at the last barrier
  KnownWork known_;                              // by all threads, at the last barrier
  KnownWork visible_;                            // to all threads
  std::vector<CopySource> sources_{SharedArena::kArenaBytes / AccessHistory::kCellBytes};
};

/// The race build's observer. Compiled code calls it at every access, so it is reached directly.
extern RaceDetector race_detector;

}  // namespace llm::emu
