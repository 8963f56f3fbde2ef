// Runs launches: each worker thread takes whole blocks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "cuda/emu/block_runner.h"

namespace llm::emu {

class Executor {
 public:
  /// Runs all blocks to their end; returns what was wrong in the first that failed, if any.
  std::optional<std::string> run(const KernelLaunch& launch, const Settings& settings);

 private:
  void use_workers(int count);

  std::unique_ptr<ThreadPool> workers_;
  std::vector<std::unique_ptr<BlockRunner>> runners_;  // one per worker
};

}  // namespace llm::emu
