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

std::vector<std::string> Executor::run(const KernelLaunch& launch, const Settings& settings) {
  Observer* const watching = observer();
  const int wanted = settings.workers > 0 ? settings.workers : allowed_threads();
  use_workers(watching != nullptr ? 1 : wanted);
  if (watching != nullptr) watching->begin_launch(launch);
  for (const auto& runner : runners_) runner->begin_launch(launch, settings);

  const auto num_blocks =
      static_cast<int64_t>(launch.grid.x) * launch.grid.y * static_cast<int64_t>(launch.grid.z);
  const std::vector<int64_t> order = block_order(settings, num_blocks);
  std::mutex mutex;
  std::vector<std::string> reports;
  std::atomic<bool> failed = false;
  workers_->parallel_for(num_blocks, [&](int64_t i, int worker) {
    if (failed) return;
    std::optional<std::string> wrong = runners_[worker]->run(order[i]);
    if (!wrong) return;
    const std::lock_guard lock(mutex);
    if (!failed.exchange(true)) reports.push_back(std::move(*wrong));
  });
  if (watching != nullptr) {
    for (std::string& wrong : watching->end_launch()) reports.push_back(std::move(wrong));
  }
  return reports;
}

}  // namespace llm::emu
