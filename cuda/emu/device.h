// The fake GPU with its driver: memory, streams, errors. CUDA's own is global state of a process,
// so this is too, and it's the one such object here: device().
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cuda/emu/device_memory.h"
#include "cuda/emu/executor.h"
#include "cuda/emu/settings.h"

namespace llm::emu {

/// A piece of work on a stream or in a graph.
struct Work {
  std::string name;  // of the kernel, or what it does
  std::function<void()> run;
  bool is_launch = false;  // of a kernel
};

/// A moment in a stream's work; done when the work before it is.
struct Moment {
  bool done = false;
  std::chrono::steady_clock::time_point time{};  // once done
  CUstream_st* stream = nullptr;
};

}  // namespace llm::emu

struct CUgraph_st {
  std::vector<llm::emu::Work> nodes;
};
struct CUgraphExec_st {
  std::vector<llm::emu::Work> nodes;
};
struct CUstream_st {
  bool waits_for_default = true;  // created without cudaStreamNonBlocking
  std::deque<llm::emu::Work> queue;
  std::unique_ptr<CUgraph_st> capture;  // what is recorded instead of run
  bool capture_spoiled = false;
  bool ends_with_launch = false;  // the latest work is a launch that nothing has waited for
};
struct CUevent_st {
  std::shared_ptr<llm::emu::Moment> moment;
};

namespace llm::emu {

class Device {
 public:
  // ---- Every function of the runtime ----

  /// Runs `body` (returning cudaError_t) as the function of this name: counted, failing where a
  /// test wants it or after an error that sticks. Its error is what cudaGetLastError() gives.
  template <typename Body>
  cudaError_t call(const char* function, Body body) {
    const std::lock_guard lock(mutex_);
    cudaError_t error = begin_call(function);
    if (error == cudaSuccess) error = sticky_error_;
    if (error == cudaSuccess) error = body();
    return end_call(error);
  }
  /// The same for functions that give something back: after an error that sticks, they do it and
  /// return that error.
  template <typename Body>
  cudaError_t call_release(const char* function, Body body) {
    const std::lock_guard lock(mutex_);
    cudaError_t error = begin_call(function);
    if (error == cudaSuccess) error = body();
    return end_call(error);
  }

  cudaError_t last_error(bool clear);
  /// The text of cudaErrorLaunchFailure: the last report, if there is one.
  const char* launch_failure();

  // ---- For their bodies: the lock is held ----

  const Settings& settings() const { return settings_; }
  DeviceMemory& memory() { return memory_; }
  Counters& counters() { return counters_; }

  /// Notes what is wrong; the device is unusable from now on.
  void report(cudaError_t error, const std::string& what);
  /// Notes what is wrong with a call, and returns its error.
  cudaError_t refuse_call(cudaError_t error, const std::string& what);

  /// Runs it, queues it or adds it to the graph that the stream records.
  cudaError_t submit(cudaStream_t stream, Work work);
  void run_kernel(const KernelLaunch& launch);
  /// Copies and fills run within it: makes device memory accessible.
  void touch_memory(const std::function<void()>& body);

  CUstream_st* stream_of(cudaStream_t stream);  // null if there is no such
  CUstream_st* create_stream(bool waits_for_default);
  bool destroy_stream(cudaStream_t stream);
  bool is_capturing() const;
  /// Spoils a running capture and returns its error, if there is one: for calls that wait.
  cudaError_t refuse_in_capture();

  /// For functions that wait: works off the queue, and notes that someone waited.
  void wait_for(CUstream_st& stream);
  void wait_for_all();
  /// Whether a launch on this stream comes right after another one.
  bool follows_launch(cudaStream_t stream);
  void finish(CUstream_st& stream);
  /// Works on the moment's stream until it is reached.
  void finish(const Moment& moment);
  /// Runs the oldest work of the stream, if there is any.
  void run_one(CUstream_st& stream);

  /// Host memory that copies may use while the host goes on.
  void add_pinned(void* p, size_t bytes);
  bool remove_pinned(void* p);
  bool is_pinned(const void* p) const;

  // ---- Session ----

  Settings install(const Settings& settings);
  void forget_errors();
  void fail_call(const std::string& function, int n, cudaError_t error);
  std::vector<std::string> reports();
  Counters counters_copy();
  int64_t next_allocation();
  std::vector<DeviceMemory::Allocation> allocations();

 private:
  cudaError_t begin_call(const char* function);
  cudaError_t end_call(cudaError_t error);

  std::mutex mutex_;
  Settings settings_;
  DeviceMemory memory_;
  Executor executor_;
  Counters counters_;
  std::deque<std::string> reports_;
  cudaError_t sticky_error_ = cudaSuccess;
  cudaError_t last_error_ = cudaSuccess;
  std::map<std::string, std::map<int64_t, cudaError_t>> failing_calls_;  // by function, by count
  CUstream_st default_stream_;
  std::map<CUstream_st*, std::unique_ptr<CUstream_st>> streams_;
  std::map<const std::byte*, size_t> pinned_;
};

/// Made at the first use.
Device& device();

}  // namespace llm::emu
