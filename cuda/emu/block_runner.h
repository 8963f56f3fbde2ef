// Runs the CUDA threads of one block as fibers of the calling operating-system thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/emu/async_copies.h"
#include "cuda/emu/fiber.h"
#include "cuda/emu/kernel_launch.h"
#include "cuda/emu/observer.h"
#include "cuda/emu/schedule.h"
#include "cuda/emu/shared_arena.h"

namespace llm::emu {

class BlockRunner {
 public:
  BlockRunner() : observer_(observer()) {}
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  /// The blocks that follow are of this launch; both must outlive them.
  void begin_launch(const KernelLaunch& launch, const Settings& settings);

  /// Runs a block to its end; returns what was wrong, if anything.
  std::optional<std::string> run(int64_t block);

  // ---- For code that runs in the block (thread.h) ----

  BarrierResult sync_block(const char* name, bool predicate, Place place);
  void warp_collective(const char* name, uint32_t mask, void* operand, Combine combine,
                       Place place);
  void yield(Place place);
  [[noreturn]] void fail(const std::string& what, Place place);
  SharedArena& arena() { return arena_; }
  AsyncCopies& copies() { return current().copies; }
  Observer* observer_or_null() const { return observer_; }
  void thread_fence();

 private:
  struct Thread : KernelThread {
    int rank = 0;  // in the schedule
    bool started = false;
    bool exited = false;
    Context context;
    Stack* stack = nullptr;
    AsyncCopies copies;
    // What it waits for; null while it doesn't.
    const char* waits_in = nullptr;
    Place waits_at;
    // Its part in a collective of its warp.
    uint32_t mask = 0;
    void* operand = nullptr;
  };
  struct Warp {
    uint32_t alive = 0;    // lanes that haven't exited
    uint32_t waiting = 0;  // lanes in a collective
  };
  struct Barrier {
    int arrived = 0;
    int num_true = 0;
    const char* name = nullptr;  // as the first to arrive called it
    Place place;
    BarrierResult result;  // of the last barrier that opened
  };

  static void fiber_main(boost::context::detail::transfer_t from);
  void begin_block(int64_t block);
  Thread* run_thread();
  Thread& current() { return *static_cast<Thread*>(self); }
  Thread& lane_of(const Thread& thread, int lane) {
    return threads_[thread.index - thread.lane + lane];
  }
  Warp& warp_of(const Thread& thread) { return warps_[thread.index / kWarpSize]; }

  void wait(Thread& thread);
  void wake(Thread& thread);
  void run_first_ready(Thread& thread);
  void switch_from(Thread& thread, Thread& next);
  void open_barrier_if_all_arrived();
  bool all_call_the_same(const Thread& thread);
  WarpOperands operands(const Thread& thread);
  void finish_thread(Thread& thread);
  Thread* first_ready();
  [[noreturn]] void abandon(std::string report);
  std::string place_of_block() const;
  std::string deadlock() const;

  Observer* const observer_;
  const KernelLaunch* launch_ = nullptr;
  const Settings* settings_ = nullptr;
  BlockShape shape_;
  std::unique_ptr<Thread[]> threads_ = std::make_unique<Thread[]>(kMaxThreads);
  std::vector<Warp> warps_;
  std::vector<int> order_;        // index of the thread of each rank
  std::vector<Thread*> by_rank_;  // the same
  ReadySet ready_;
  int num_threads_ = 0;
  int num_alive_ = 0;
  bool waited_for_predecessor_ = false;  // any thread
  int64_t num_yields_ = 0;
  Barrier barrier_;
  SharedArena arena_;
  StackPool stacks_;
  Context outside_;  // whoever called run()
  std::optional<std::string> report_;
};

}  // namespace llm::emu
