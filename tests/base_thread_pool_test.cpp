#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"

using namespace llm;

TEST_CASE("thread_pool: every task runs exactly once, for any number of threads and tasks") {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    CHECK(pool.num_threads() == threads);
    for (const int64_t count : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
      std::atomic<bool> thread_in_range = true;
      pool.parallel_for(count, [&](int64_t i, int thread) {
        calls[static_cast<size_t>(i)].fetch_add(1);
        if (thread < 0 || thread >= threads) thread_in_range = false;
      });
      int wrong = 0;
      for (const auto& n : calls) wrong += n != 1;
      CHECK(wrong == 0);
      CHECK(thread_in_range);
    }
  }
}

TEST_CASE("thread_pool: many tiny loops one after the other lose and repeat nothing") {
  ThreadPool pool(4);
  std::vector<std::atomic<int64_t>> sums(9);
  constexpr int kLoops = 20000;
  for (int loop = 0; loop < kLoops; ++loop) {
    pool.parallel_for(1 + loop % 9, [&](int64_t i, int) { sums[static_cast<size_t>(i)] += loop; });
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    int64_t expected = 0;
    for (int loop = 0; loop < kLoops; ++loop)
      expected += 1 + loop % 9 > static_cast<int>(i) ? loop : 0;
    CHECK(sums[i] == expected);
  }
}

TEST_CASE("thread_pool: a loop's writes are visible to the caller and to the next loop") {
  ThreadPool pool(3);
  std::vector<int64_t> values(100, 0);
  for (int loop = 0; loop < 500; ++loop) {
    // Every task reads its neighbour's value of the loop before.
    const std::vector<int64_t> before = values;
    pool.parallel_for(100, [&](int64_t i, int) {
      values[static_cast<size_t>(i)] = before[static_cast<size_t>((i + 1) % 100)] + 1;
    });
  }
  CHECK(values == std::vector<int64_t>(100, 500));
}

TEST_CASE("thread_pool: one thread takes tasks in ascending order, on the caller") {
  ThreadPool pool(1);
  std::vector<int64_t> order;
  const auto caller = std::this_thread::get_id();
  pool.parallel_for(50, [&](int64_t i, int) {
    CHECK(std::this_thread::get_id() == caller);
    order.push_back(i);
  });
  for (int64_t i = 0; i < 50; ++i) CHECK(order[static_cast<size_t>(i)] == i);
}

TEST_CASE("thread_pool: each thread sees ascending tasks") {
  ThreadPool pool(4);
  std::vector<int64_t> last(4, -1);
  std::atomic<int> descents = 0;
  pool.parallel_for(5000, [&](int64_t i, int thread) {
    int64_t& previous = last[static_cast<size_t>(thread)];
    if (i <= previous) ++descents;
    previous = i;
  });
  CHECK(descents == 0);
}

TEST_CASE("thread_pool: all threads work on one loop, loop after loop") {
  constexpr int kThreads = 3;
  ThreadPool pool(kThreads);
  for (int loop = 0; loop < 300; ++loop) {
    // Each task waits for all others, so every thread must take one.
    std::atomic<int> arrived = 0;
    std::vector<int> calls(kThreads, 0);
    pool.parallel_for(kThreads, [&](int64_t, int thread) {
      ++calls[static_cast<size_t>(thread)];
      ++arrived;
      while (arrived < kThreads) std::this_thread::yield();
    });
    REQUIRE(calls == std::vector<int>(kThreads, 1));
    // A loop of another length right behind it, while the workers are still looking for tasks.
    std::atomic<int> done = 0;
    pool.parallel_for(1 + loop % 17, [&](int64_t, int) { ++done; });
    REQUIRE(done == 1 + loop % 17);
  }
}

TEST_CASE(
    "thread_pool: the lowest task's exception is rethrown, the rest is done, the pool lives") {
  for (const int threads : {1, 4}) {
    ThreadPool pool(threads);
    std::atomic<int> calls = 0;
    std::string message;
    try {
      pool.parallel_for(100, [&](int64_t i, int) {
        ++calls;
        if (i % 10 == 7) throw std::runtime_error("task " + std::to_string(i));
      });
    } catch (const std::runtime_error& e) {
      message = e.what();
    }
    CHECK(message == "task 7");
    CHECK(calls == 100);
    calls = 0;
    pool.parallel_for(10, [&](int64_t, int) { ++calls; });
    CHECK(calls == 10);
  }
}

TEST_CASE("thread_pool: the lowest task's exception wins even if another was thrown before it") {
  ThreadPool pool(2);
  std::atomic<bool> thrown = false;
  std::string message;
  try {
    pool.parallel_for(2, [&](int64_t i, int) {
      if (i == 1) {
        thrown = true;
        throw std::runtime_error("task 1");
      }
      while (!thrown) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      throw std::runtime_error("task 0");
    });
  } catch (const std::runtime_error& e) {
    message = e.what();
  }
  CHECK(message == "task 0");
}

TEST_CASE("thread_pool: a loop inside a loop is refused with any number of threads") {
  for (const int threads : {1, 2}) {
    ThreadPool pool(threads);
    CHECK_THROWS_AS(
        pool.parallel_for(2, [&](int64_t, int) { pool.parallel_for(2, [](int64_t, int) {}); }),
        std::logic_error);
  }
}

TEST_CASE("thread_pool: a caller that fell asleep waiting for a slow task is woken") {
  ThreadPool pool(2);
  std::atomic<int> arrived = 0;
  std::atomic<bool> slow_done = false;
  pool.parallel_for(2, [&](int64_t, int thread) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
    if (thread == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    slow_done = true;
  });
  CHECK(slow_done);
}

TEST_CASE("thread_pool: a pool that never worked can be destroyed, and one that slept can work") {
  for (int i = 0; i < 50; ++i) ThreadPool pool(4);
  ThreadPool pool(2);
  std::atomic<int> calls = 0;
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    pool.parallel_for(20, [&](int64_t, int) { ++calls; });
  }
  CHECK(calls == 60);
}

TEST_CASE("thread_pool: fewer than one thread is a bug") {
  CHECK_THROWS_AS(ThreadPool(0), std::logic_error);
}
