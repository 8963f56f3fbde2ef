// How emulated launches run, and what became of them: for tests and for programs that run on the
// emulator.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace llm::emu {

/// Which of the ready threads of a block runs, and which block comes first. A thread runs until it
/// must wait. kForward and kReverse together run every pair of threads between two barriers in both
/// orders.
enum class Order { kForward, kReverse, kRandom };

/// What the fake driver says of itself.
struct DeviceModel {
  int count = 1;
  std::string name = "Emulated GPU";
  int major = 9;
  int minor = 0;
  int multiprocessors = 4;
  size_t memory_bytes = size_t{4} << 30;
  int driver_version = 13000;
};

struct Settings {
  Order order = Order::kForward;
  uint64_t seed = 0;  // of kRandom
  /// cp.async: copy at the wait, with 0xff bytes in the target until then; else at once.
  bool late_copies = true;
  /// Work on streams runs only when something waits for it; else at once.
  bool lazy_streams = false;
  /// The host can't touch device memory outside kernels and copies: it crashes with a message.
  bool strict = false;
  /// Whether cuBLASLt is installed (fake_cublaslt.cpp).
  bool has_cublaslt = true;
  /// Operating-system threads that run blocks; 0 for as many as this process may use.
  int workers = 0;
  DeviceModel device = {};
};

/// What happened since the session began.
struct Counters {
  std::map<std::string, int64_t> launches;  // by kernel, graph launches included
  std::map<std::string, int64_t> calls;     // by name of the runtime's function
  int64_t bytes_to_device = 0;
  int64_t bytes_to_host = 0;
  int64_t bytes_on_device = 0;
};

class HostAccessMessage;

/// For its lifetime, launches run with these settings, on a device without errors. The device
/// itself, with its allocations and streams, is global state of the process, as it is in CUDA
/// (device.h); so sessions nest, but don't run side by side.
class Session {
 public:
  explicit Session(const Settings& settings);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// All that was found wrong, in full, oldest first.
  std::vector<std::string> reports() const;
  /// Clears reports and the error that sticks to the device.
  void forget_reports();

  /// Makes the n-th call (from 1) of this function of the runtime, from now on, fail with this
  /// error. Launches are "cudaLaunchKernel".
  void fail_call(const std::string& function, int n, cudaError_t error);

  Counters counters() const;
  /// Device allocations made since the session began and still alive, e.g. "4096 bytes".
  std::vector<std::string> leaks() const;

 private:
  Settings previous_;
  int64_t first_allocation_;
  std::unique_ptr<HostAccessMessage> host_access_;  // of strict sessions
};

}  // namespace llm::emu
