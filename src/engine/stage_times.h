// Where the time of prefill and decode steps goes, by the backend's stages.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/observer.h"

namespace llm {

/// All calls of one stage in one phase, added up over layers and steps.
struct StageTotal {
  bool decode = false;  // steps of decode rows only; else prefill
  std::string name;
  int64_t calls = 0;
  double flop = 0;
  double bytes = 0;         // weights, cache and activations
  double stream_bytes = 0;  // of these, weights and cache: what memory has to deliver
  double seconds = 0;
};

class StageTimes : public Observer {
 public:
  void begin(const Stage& stage) override;
  void end(const Stage& stage, ConstTensor output) override;

  /// In order of first appearance.
  const std::vector<StageTotal>& totals() const { return totals_; }
  int64_t num_decode_steps() const { return num_decode_steps_; }

 private:
  using Clock = std::chrono::steady_clock;
  StageTotal& total_of(const std::string& name);

  std::vector<StageTotal> totals_;
  bool in_decode_ = false;
  int64_t num_decode_steps_ = 0;
  Clock::time_point began_;
};

}  // namespace llm
