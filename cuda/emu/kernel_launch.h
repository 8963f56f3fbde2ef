// A kernel with its arguments, ready to be run or kept in a graph.
#pragma once

#include <functional>
#include <string>

#include "cuda/emu/thread.h"

namespace llm::emu {

/// Most threads of a block.
inline constexpr int kMaxThreads = 1024;

struct KernelLaunch {
  std::string name;
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  bool overlaps_predecessor = false;  // as LaunchConfig has it
  /// The same, where the stream's work before it is a launch that nothing has waited for.
  bool predecessor_may_run = false;
  bool cooperative = false;
  unsigned cluster = 1;
  std::function<void()> thread_body;  // one thread's run, the arguments by value
};

/// Checks the launch's sizes and queues it (runtime_launch.cpp).
cudaError_t queue_launch(KernelLaunch launch, cudaStream_t stream);

}  // namespace llm::emu
