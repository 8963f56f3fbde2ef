// Worker threads that share one parallel loop at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace llm {

/// Threads that this process may use: affinity mask and cgroup CPU quota, at least 1.
int allowed_threads();

/// A fixed set of threads, the caller included. Between loops workers spin briefly, then sleep.
/// Results never depend on the number of threads: each task's output is the caller's to fix.
class ThreadPool {
 public:
  /// num_threads >= 1, counting the calling thread.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  /// Calls task(i, thread) once for each i in [0, count), on any thread (0 <= thread <
  /// num_threads()), tasks handed out in ascending order. Returns when all are done; the first
  /// exception thrown by a task is rethrown here. Not re-entrant.
  void parallel_for(int64_t count, const std::function<void(int64_t i, int thread)>& task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llm
