// Hand-off of a loop's tasks to threads that mostly wait in a spin.
//
// A loop is published as a ticket: the loop's number in the upper 32 bits, the next task in the
// lower. A thread takes a task by raising the ticket with compare-exchange, which fails once the
// loop is over; so the caller never waits for a worker that has not woken up, only for tasks taken.
#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/cgroup.h"
#include "base/error.h"

namespace llm {
namespace {

using Clock = std::chrono::steady_clock;

// Loops of a decode step follow each other within microseconds, and waking a sleeper costs tens of
// them. After the pauses the core is offered to others at every look.
constexpr int kPauses = 256;
constexpr std::chrono::microseconds kYielding{100};

constexpr uint32_t kClosed = std::numeric_limits<uint32_t>::max();

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits until `value` no longer holds `old`: spins, yields, then sleeps.
void wait_while_equal(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kPauses; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause_cpu();
  }
  const Clock::time_point end = Clock::now() + kYielding;
  do {
    if (value.load(std::memory_order_acquire) != old) return;
    sched_yield();
  } while (Clock::now() < end);
  value.wait(old, std::memory_order_acquire);
}

int affinity_count() {
  // The kernel refuses a mask smaller than its own number of CPUs with EINVAL.
  for (int cpus = CPU_SETSIZE; cpus <= (1 << 20); cpus *= 2) {
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    std::vector<cpu_set_t> mask((bytes + sizeof(cpu_set_t) - 1) / sizeof(cpu_set_t));
    if (sched_getaffinity(0, bytes, mask.data()) == 0) return CPU_COUNT_S(bytes, mask.data());
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

/// Blocks all signals in this thread while it lives, so that threads started meanwhile leave them
/// to the others.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    // A thread's own faults stay its own: blocked, they would end the program without the message
    // that main's handler gives.
    for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

int allowed_threads() {
  const int cpus = std::max(1, affinity_count());
  const double quota = cgroup_cpu_quota("/");
  // Rounded up: a quota of 1.5 CPUs does more work with two threads than with one.
  return static_cast<int>(std::clamp(std::ceil(quota), 1.0, static_cast<double>(cpus)));
}

struct ThreadPool::State {
  using Task = std::function<void(int64_t, int)>;

  // Own cache lines: workers poll `loop` while others raise `ticket` and `done`.
  alignas(64) std::atomic<uint64_t> ticket{kClosed};  // loop number << 32 | next task
  alignas(64) std::atomic<uint32_t> loop{0};          // changes when a loop starts
  alignas(64) std::atomic<uint32_t> done{0};          // finished tasks of the loop
  // Written between loops, while the ticket is closed.
  alignas(64) std::atomic<uint32_t> count{0};
  std::atomic<const Task*> task{nullptr};
  std::atomic<bool> stopping{false};
  std::atomic<bool> busy{false};

  std::mutex error_mutex;
  std::exception_ptr error;
  int64_t error_index = 0;

  std::vector<std::thread> workers;

  void call(const Task& f, int64_t i, int thread);
  void run_tasks(uint32_t loop_number, int thread);
  void work(int thread);
  void run_shared(uint32_t n, const Task& f);
  void stop();
};

// Keeps the exception of the lowest task, so that it doesn't depend on the number of threads.
void ThreadPool::State::call(const Task& f, int64_t i, int thread) {
  try {
    f(i, thread);
  } catch (...) {
    const std::lock_guard lock(error_mutex);
    if (error == nullptr || i < error_index) {
      error = std::current_exception();
      error_index = i;
    }
  }
}

void ThreadPool::State::run_tasks(uint32_t loop_number, int thread) {
  uint32_t finished = 0;
  uint64_t seen = ticket.load(std::memory_order_acquire);
  while (true) {
    if (static_cast<uint32_t>(seen >> 32) != loop_number) break;
    // These belong to this loop if the exchange succeeds: they change only after the ticket closed.
    const uint32_t n = count.load(std::memory_order_acquire);
    const Task* f = task.load(std::memory_order_acquire);
    const uint32_t i = static_cast<uint32_t>(seen);
    if (i >= n) break;
    if (!ticket.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      continue;
    }
    call(*f, i, thread);
    ++finished;
    seen = ticket.load(std::memory_order_acquire);
  }
  if (finished > 0) {
    done.fetch_add(finished, std::memory_order_acq_rel);
    done.notify_one();
  }
}

void ThreadPool::State::work(int thread) {
  uint32_t last = 0;
  while (true) {
    wait_while_equal(loop, last);
    last = loop.load(std::memory_order_acquire);
    if (stopping.load(std::memory_order_acquire)) return;
    run_tasks(last, thread);
  }
}

void ThreadPool::State::run_shared(uint32_t n, const Task& f) {
  const uint32_t number = loop.load(std::memory_order_relaxed) + 1;
  ticket.exchange(uint64_t{number} << 32 | kClosed, std::memory_order_acq_rel);
  count.store(n, std::memory_order_release);
  task.store(&f, std::memory_order_release);
  done.store(0, std::memory_order_relaxed);
  ticket.store(uint64_t{number} << 32, std::memory_order_release);
  loop.store(number, std::memory_order_release);
  loop.notify_all();

  run_tasks(number, 0);
  for (uint32_t d = done.load(std::memory_order_acquire); d != n;) {
    wait_while_equal(done, d);
    d = done.load(std::memory_order_acquire);
  }
}

void ThreadPool::State::stop() {
  stopping.store(true, std::memory_order_release);
  loop.fetch_add(1, std::memory_order_release);
  loop.notify_all();
  for (std::thread& worker : workers) worker.join();
}

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  LLM_CHECK(num_threads >= 1, "{} threads", num_threads);
  const SignalsBlocked blocked;
  State* state = state_.get();
  try {
    for (int t = 1; t < num_threads; ++t) {
      state->workers.emplace_back([state, t] { state->work(t); });
    }
  } catch (const std::system_error& e) {
    const size_t started = state->workers.size() + 1;
    state->stop();
    fail("could start only {} of {} threads ({}); ask for fewer with --threads", started,
         num_threads, e.code().message());
  }
}

ThreadPool::~ThreadPool() { state_->stop(); }

int ThreadPool::num_threads() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::parallel_for(int64_t count, const std::function<void(int64_t, int)>& task) {
  LLM_CHECK(count >= 0 && count < kClosed, "{} tasks", count);
  LLM_CHECK(!state_->busy.exchange(true, std::memory_order_acquire), "a loop is running");
  if (count <= 1 || state_->workers.empty()) {
    for (int64_t i = 0; i < count; ++i) state_->call(task, i, 0);
  } else {
    state_->run_shared(static_cast<uint32_t>(count), task);
  }
  const std::exception_ptr error = std::exchange(state_->error, nullptr);
  state_->busy.store(false, std::memory_order_release);
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace llm
