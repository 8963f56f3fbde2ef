#include "cuda/emu/executor.h"

#include <atomic>
#include <mutex>

namespace llm::emu {

void Executor::use_workers(int count) {
  if (workers_ != nullptr && workers_->num_threads() == count) return;
  workers_ = std::make_unique<ThreadPool>(count);
  while (runners_.size() < static_cast<size_t>(count)) {
    runners_.push_back(std::make_unique<BlockRunner>());
  }
}

std::optional<std::string> Executor::run(const KernelLaunch& launch, const Settings& settings) {
  use_workers(settings.workers > 0 ? settings.workers : allowed_threads());
  for (const auto& runner : runners_) runner->begin_launch(launch, settings);

  const auto num_blocks =
      static_cast<int64_t>(launch.grid.x) * launch.grid.y * static_cast<int64_t>(launch.grid.z);
  const std::vector<int64_t> order = block_order(settings, num_blocks);
  std::mutex mutex;
  std::optional<std::string> report;
  std::atomic<bool> failed = false;
  workers_->parallel_for(num_blocks, [&](int64_t i, int worker) {
    if (failed) return;
    std::optional<std::string> wrong = runners_[worker]->run(order[i]);
    if (!wrong) return;
    const std::lock_guard lock(mutex);
    if (!failed.exchange(true)) report = std::move(wrong);
  });
  return report;
}

}  // namespace llm::emu
