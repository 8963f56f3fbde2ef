// LLM_LAUNCH in the emulator: a kernel with the arguments as they are now, queued on a stream.
// Included by cuda/rt.h, which has LaunchConfig and check_cuda().
#pragma once

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda/emu/kernel_launch.h"

namespace llm {

/// The name as LLM_LAUNCH has it, "(gemm_kernel<64>)", without the parentheses.
inline std::string kernel_name(std::string name) {
  if (name.starts_with('(') && name.ends_with(')')) name = name.substr(1, name.size() - 2);
  return name;
}

/// Queues the kernel; arguments are converted to its parameters. Throws as check_cuda().
template <typename... Params, typename... Args>
void launch(const char* name, void (*kernel)(Params...), const LaunchConfig& config,
            Args&&... args) {
  std::tuple<std::remove_cv_t<Params>...> values(static_cast<Params>(args)...);
  emu::KernelLaunch launch;
  launch.name = kernel_name(name);
  launch.grid = config.grid;
  launch.block = config.block;
  launch.shared_bytes = config.shared_bytes;
  launch.overlaps_predecessor = config.overlaps_predecessor;
  launch.cooperative = config.cooperative;
  launch.cluster = config.cluster;
  launch.thread_body = [kernel, values = std::move(values)] { std::apply(kernel, values); };
  check_cuda(emu::queue_launch(std::move(launch), config.stream), name);
}

}  // namespace llm
