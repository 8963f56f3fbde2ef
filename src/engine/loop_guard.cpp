#include "engine/loop_guard.h"

#include <algorithm>

namespace llm {
namespace {

/// Ids of exact repetition that make a loop of this period.
int64_t too_many(int64_t period) {
  return std::clamp(LoopGuard::kMinRepetitions * period, LoopGuard::kMinIds, LoopGuard::kEnoughIds);
}

}  // namespace

bool LoopGuard::push(int32_t id) {
  if (found_) return true;
  const auto length = static_cast<int64_t>(ids_.size());
  for (int64_t period = 1; period <= std::min(kMaxPeriod, length); ++period) {
    int64_t& matches = matches_[static_cast<size_t>(period - 1)];
    matches = ids_[static_cast<size_t>(length - period)] == id ? matches + 1 : 0;
    const int64_t repeated = matches + period;
    if (!found_ && repeated >= too_many(period)) found_ = {period, repeated / period};
  }
  ids_.push_back(id);
  return found_.has_value();
}

}  // namespace llm
