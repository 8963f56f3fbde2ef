#include "cuda/emu/block_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <thread>

namespace llm::emu {

constinit thread_local KernelThread* self = nullptr;

namespace {

/// The runner whose block runs on this operating-system thread.
constinit thread_local BlockRunner* runner = nullptr;

/// Unwinds the thread that found the block wrong; the others are dropped where they wait.
struct Abandoned {};

// A block that yields this often waits for something that won't happen.
constexpr int64_t kMaxYields = 20'000'000;

std::string text(uint3 i) { return fmt::format("({},{},{})", i.x, i.y, i.z); }
std::string text(Place place) { return fmt::format("{}:{}", place.file, place.line); }

bool same(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }
bool same(Place a, Place b) { return a.line == b.line && same(a.file, b.file); }

/// The index-th of a box of this size, x running fastest.
uint3 position(int64_t index, dim3 size) {
  return {static_cast<unsigned>(index % size.x), static_cast<unsigned>(index / size.x % size.y),
          static_cast<unsigned>(index / size.x / size.y)};
}

}  // namespace

void BlockRunner::begin_launch(const KernelLaunch& launch, const Settings& settings) {
  launch_ = &launch;
  settings_ = &settings;
  shape_.block_dim = launch.block;
  shape_.grid_dim = launch.grid;
  num_threads_ = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
  arena_.begin_launch(launch.shared_bytes);
}

void BlockRunner::begin_block(int64_t block) {
  shape_.block_index = position(block, shape_.grid_dim);
  thread_order(*settings_, block, num_threads_, order_);
  ready_.clear();
  by_rank_.resize(num_threads_);
  for (int rank = 0; rank < num_threads_; ++rank) {
    const int index = order_[rank];
    Thread& thread = threads_[index];
    by_rank_[rank] = &thread;
    thread.thread_index = position(index, shape_.block_dim);
    thread.lane = index % kWarpSize;
    thread.block = &shape_;
    thread.index = index;
    thread.rank = rank;
    thread.started = false;
    thread.exited = false;
    thread.copies.reset(settings_->late_copies);
    thread.waits_in = nullptr;
    thread.waited_for_predecessor = false;
    ready_.insert(rank);
  }
  warps_.assign((num_threads_ + kWarpSize - 1) / kWarpSize, {.alive = kFullMask, .waiting = 0});
  if (const int rest = num_threads_ % kWarpSize; rest != 0) {
    warps_.back().alive = (uint32_t{1} << rest) - 1;
  }
  num_alive_ = num_threads_;
  waited_for_predecessor_ = false;
  num_yields_ = 0;
  barrier_ = {};
  report_.reset();
  arena_.begin_block();
  if (observer_ != nullptr) observer_->begin_block(block, arena_);
}

std::optional<std::string> BlockRunner::run(int64_t block) {
  begin_block(block);
  runner = this;
  Thread& first = *first_ready();
  first.started = true;
  first.stack = stacks_.take();
  prepare(first.context, *first.stack, fiber_main);
  self = &first;
  switch_to(outside_, first.context);
  self = nullptr;
  runner = nullptr;
  if (report_) {
    stacks_.reclaim();
  } else if (launch_->overlaps_predecessor && !waited_for_predecessor_) {
    report_ = fmt::format(
        "{}: ended without wait_for_predecessor(), so its successor may start "
        "before the launch before it is done",
        place_of_block());
  } else if (const std::optional<std::string> overrun = arena_.overrun()) {
    report_ = fmt::format("{}: shared memory was written {}", place_of_block(), *overrun);
  }
  return report_;
}

// ---- Threads ----

/// A fiber runs one CUDA thread after another, as long as the next one hasn't begun.
void BlockRunner::fiber_main(boost::context::detail::transfer_t from) {
  arrive(from);
  BlockRunner& r = *runner;
  for (;;) {
    Thread* const next = r.run_thread();
    if (next == nullptr) leave_to(r.outside_);
    if (next->started) leave_to(next->context);
    next->started = true;
  }
}

/// Runs the current thread to its end. Returns the one to run now, or null if the block is done; a
/// thread that hasn't begun gets this one's stack.
BlockRunner::Thread* BlockRunner::run_thread() {
  try {
    Thread& thread = current();
    launch_->thread_body();
    finish_thread(thread);
    Thread* const next = first_ready();
    if (next == nullptr && num_alive_ > 0) abandon(deadlock());
    self = next;
    if (next != nullptr && !next->started) {
      next->stack = thread.stack;
    } else {
      stacks_.give_back(thread.stack);
    }
    return next;
  } catch (const Abandoned&) {
    return nullptr;
  }
}

BlockRunner::Thread* BlockRunner::first_ready() {
  const int rank = ready_.first();
  return rank < 0 ? nullptr : by_rank_[rank];
}

void BlockRunner::finish_thread(Thread& thread) {
  thread.exited = true;
  waited_for_predecessor_ |= thread.waited_for_predecessor;
  ready_.erase(thread.rank);
  --num_alive_;
  Warp& warp = warp_of(thread);
  warp.alive &= ~(uint32_t{1} << thread.lane);
  for (uint32_t rest = warp.waiting; rest != 0; rest &= rest - 1) {
    const Thread& other = lane_of(thread, __builtin_ctz(rest));
    if ((other.mask >> thread.lane & 1) != 0) {
      abandon(fmt::format("{}: thread {} exited, but {} at {} waits for its lane {} (mask {:#x})",
                          place_of_block(), text(thread.thread_index), other.waits_in,
                          text(other.waits_at), thread.lane, other.mask));
    }
  }
  if (num_alive_ > 0) open_barrier_if_all_arrived();
}

void BlockRunner::switch_from(Thread& thread, Thread& next) {
  if (!next.started) {
    next.started = true;
    next.stack = stacks_.take();
    prepare(next.context, *next.stack, fiber_main);
  }
  self = &next;
  switch_to(thread.context, next.context);
}

void BlockRunner::run_first_ready(Thread& thread) {
  Thread* const next = first_ready();
  if (next == nullptr) abandon(deadlock());
  if (next != &thread) switch_from(thread, *next);
}

void BlockRunner::wait(Thread& thread) {
  ready_.erase(thread.rank);
  run_first_ready(thread);
}

void BlockRunner::wake(Thread& thread) {
  thread.waits_in = nullptr;
  ready_.insert(thread.rank);
}

void BlockRunner::yield(Place place) {
  Thread& thread = current();
  if (++num_yields_ > kMaxYields) fail("waits in a loop for what never happens", place);
  Thread& next = *by_rank_[ready_.first_after(thread.rank)];
  // What it waits for may come from another worker's block.
  if (&next == &thread || num_yields_ % 1024 == 0) std::this_thread::yield();
  if (&next != &thread) switch_from(thread, next);
}

// ---- Block barriers ----

BarrierResult BlockRunner::sync_block(const char* name, bool predicate, Place place) {
  Thread& thread = current();
  if (barrier_.arrived == 0) {
    barrier_.name = name;
    barrier_.place = place;
  } else if (!same(barrier_.name, name) || !same(barrier_.place, place)) {
    fail(fmt::format("waits at {}, while {} threads of the block wait at {} {}: the barrier "
                     "diverges",
                     name, barrier_.arrived, barrier_.name, text(barrier_.place)),
         place);
  }
  ++barrier_.arrived;
  barrier_.num_true += predicate ? 1 : 0;
  thread.waits_in = name;
  thread.waits_at = place;
  ready_.erase(thread.rank);
  open_barrier_if_all_arrived();
  run_first_ready(thread);
  return barrier_.result;
}

void BlockRunner::open_barrier_if_all_arrived() {
  if (barrier_.arrived < num_alive_) return;
  barrier_.result = {.num_true = barrier_.num_true, .all = barrier_.num_true == barrier_.arrived};
  barrier_.arrived = 0;
  barrier_.num_true = 0;
  if (observer_ != nullptr) observer_->sync_block();
  for (int i = 0; i < num_threads_; ++i) {
    if (!threads_[i].exited) wake(threads_[i]);
  }
}

// ---- Warp collectives ----

void BlockRunner::warp_collective(const char* name, uint32_t mask, void* operand, Combine combine,
                                  Place place) {
  Thread& thread = current();
  Warp& warp = warp_of(thread);
  const uint32_t own = uint32_t{1} << thread.lane;
  if ((mask & own) == 0) {
    fail(fmt::format("{}: lane {} isn't in its mask {:#x}", name, thread.lane, mask), place);
  }
  if ((mask & ~warp.alive) != 0) {
    fail(fmt::format("{}: mask {:#x} names lanes {:#x}, which have exited or don't exist", name,
                     mask, mask & ~warp.alive),
         place);
  }
  thread.waits_in = name;
  thread.waits_at = place;
  thread.mask = mask;
  thread.operand = operand;
  warp.waiting |= own;
  if ((warp.waiting & mask) != mask || !all_call_the_same(thread)) {
    wait(thread);
    return;
  }
  if (combine != nullptr) {
    combine(operands(thread));
  } else if (observer_ != nullptr) {
    observer_->sync_warp(mask);
  }
  warp.waiting &= ~mask;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    wake(lane_of(thread, __builtin_ctz(rest)));
  }
  run_first_ready(thread);
}

void BlockRunner::thread_fence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (observer_ != nullptr) observer_->fence();
}

/// Whether all lanes of the thread's mask, who all wait, wait in the same call.
bool BlockRunner::all_call_the_same(const Thread& thread) {
  for (uint32_t rest = thread.mask; rest != 0; rest &= rest - 1) {
    const Thread& lane = lane_of(thread, __builtin_ctz(rest));
    if (lane.mask != thread.mask) return false;
    if (!same(lane.waits_in, thread.waits_in) || !same(lane.waits_at, thread.waits_at)) {
      fail(fmt::format("calls {}, while lane {} of the same mask {:#x} calls {} at {}",
                       thread.waits_in, lane.lane, thread.mask, lane.waits_in, text(lane.waits_at)),
           thread.waits_at);
    }
  }
  return true;
}

WarpOperands BlockRunner::operands(const Thread& thread) {
  WarpOperands lanes;
  lanes.mask = thread.mask;
  lanes.name = thread.waits_in;
  lanes.place = thread.waits_at;
  for (uint32_t rest = thread.mask; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    lanes.lane[i] = lane_of(thread, i).operand;
  }
  return lanes;
}

// ---- Reports ----

std::string BlockRunner::place_of_block() const {
  return fmt::format("kernel {}, block {}", launch_->name, text(shape_.block_index));
}

std::string BlockRunner::deadlock() const {
  std::map<std::string, int> waiting;
  int exited = 0;
  for (int i = 0; i < num_threads_; ++i) {
    const Thread& thread = threads_[i];
    if (thread.exited) {
      ++exited;
    } else if (thread.waits_in != nullptr) {
      ++waiting[fmt::format("{} {}", thread.waits_in, text(thread.waits_at))];
    }
  }
  std::string out = fmt::format("{}: deadlock:", place_of_block());
  for (const auto& [where, count] : waiting) {
    out += fmt::format(" {} thread{} at {};", count, count == 1 ? " waits" : "s wait", where);
  }
  return out + fmt::format(" {} exited", exited);
}

void BlockRunner::fail(const std::string& what, Place place) {
  abandon(fmt::format("{}, thread {} at {}: {}", place_of_block(), text(current().thread_index),
                      text(place), what));
}

void BlockRunner::abandon(std::string report) {
  report_ = std::move(report);
  throw Abandoned();
}

// ---- thread.h ----

BarrierResult sync_block(const char* name, bool predicate, Place place) {
  return runner->sync_block(name, predicate, place);
}

void warp_collective(const char* name, uint32_t mask, void* operand, Combine combine, Place place) {
  runner->warp_collective(name, mask, operand, combine, place);
}

void* shared_array(const void* tag, const char* name, size_t bytes, size_t alignment, Place place) {
  void* const data = runner->arena().array(tag, name, bytes, alignment);
  if (data == nullptr) {
    fail_thread(fmt::format("shared array {} of {} bytes: the block has {} of {} already", name,
                            bytes, runner->arena().total_bytes(), kMaxSharedBytes),
                place);
  }
  return data;
}

void* dynamic_shared() { return runner->arena().dynamic(); }

void require_shared(const void* p, size_t bytes, const char* name, Place place) {
  if (runner->arena().holds(p, bytes)) return;
  const SharedArena& arena = runner->arena();
  fail_thread(fmt::format("{}: {} bytes at {} aren't in one array of shared memory", name, bytes,
                          arena.contains(p) ? arena.describe(p) : fmt::format("{}", p)),
              place);
}

void note_read(const void* p, size_t bytes, Place place) {
  if (Observer* const o = runner->observer_or_null(); o != nullptr) o->read(p, bytes, place);
}

void thread_fence() { runner->thread_fence(); }

void yield_thread(Place place) { runner->yield(place); }

void fail_thread(const std::string& what, Place place) { runner->fail(what, place); }

void start_async_copy(void* shared, const void* global, int bytes, Place place) {
  runner->copies().start(shared, global, bytes, place);
  if (Observer* const o = runner->observer_or_null(); o != nullptr) {
    o->start_copy(shared, global, static_cast<size_t>(bytes), place);
  }
}

void commit_async_copies() { runner->copies().commit(); }

void wait_async_copies(int pending) {
  Observer* const o = runner->observer_or_null();
  runner->copies().wait(pending, [o](void* shared, Place place) {
    if (o != nullptr) o->finish_copy(shared, place);
  });
}

}  // namespace llm::emu
