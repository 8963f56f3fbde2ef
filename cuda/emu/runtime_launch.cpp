// Launches of kernels and of host functions.
#include <fmt/format.h>

#include <utility>

#include "cuda/emu/device.h"

using llm::emu::device;
using llm::emu::kMaxThreads;
using llm::emu::Work;

namespace {

constexpr unsigned kMaxGridYz = 65535;

/// What is wrong with a launch's sizes, if anything.
std::string wrong_sizes(const llm::emu::KernelLaunch& launch) {
  const dim3 b = launch.block;
  const dim3 g = launch.grid;
  const auto threads = static_cast<uint64_t>(b.x) * b.y * b.z;
  if (threads == 0 || threads > uint64_t{kMaxThreads} || b.z > 64) {
    return fmt::format("block of {}x{}x{} threads (1 to {}, z at most 64)", b.x, b.y, b.z,
                       kMaxThreads);
  }
  if (g.x == 0 || g.y == 0 || g.z == 0 || g.x > INT32_MAX || g.y > kMaxGridYz || g.z > kMaxGridYz) {
    return fmt::format("grid of {}x{}x{} blocks (at least 1, y and z at most {})", g.x, g.y, g.z,
                       kMaxGridYz);
  }
  if (launch.shared_bytes > llm::emu::kMaxSharedBytes) {
    return fmt::format("{} bytes of shared memory (at most {})", launch.shared_bytes,
                       llm::emu::kMaxSharedBytes);
  }
  return "";
}

}  // namespace

cudaError_t llm::emu::queue_launch(KernelLaunch launch, cudaStream_t stream) {
  return device().call("cudaLaunchKernel", [&] {
    if (launch.cooperative || launch.cluster != 1) {
      return device().refuse_call(
          cudaErrorNotSupported,
          fmt::format("kernel {}: the emulator has no cooperative or cluster launches",
                      launch.name));
    }
    if (const std::string wrong = wrong_sizes(launch); !wrong.empty()) {
      return device().refuse_call(cudaErrorInvalidConfiguration,
                                  fmt::format("kernel {}: {}", launch.name, wrong));
    }
    launch.predecessor_may_run = launch.overlaps_predecessor && device().follows_launch(stream);
    Work work{launch.name, nullptr, true};
    work.run = [launch = std::move(launch)] { device().run_kernel(launch); };
    return device().submit(stream, std::move(work));
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* data) {
  return device().call("cudaLaunchHostFunc", [&] {
    return device().submit(stream, {"host function", [=] { fn(data); }, false});
  });
}
