// Runs launches: each worker thread takes whole blocks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "cuda/emu/block_runner.h"

namespace llm::emu {

class Executor {
 public:
  /// Runs all blocks, up to the first that fails; returns what was wrong.
  std::vector<std::string> run(const KernelLaunch& launch, const Settings& settings);

 private:
  void use_workers(int count);

  std::unique_ptr<ThreadPool> workers_;
  std::vector<std::unique_ptr<BlockRunner>> runners_;  // one per worker
};

}  // namespace llm::emu
