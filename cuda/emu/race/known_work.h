// Which work of other blocks a thread knows to be done: through atomics, after fences.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace llm::emu {

/// Of one block: everything before barrier `epoch`, and each thread's accesses up to its clock.
struct KnownBlock {
  uint32_t epoch = 0;
  std::vector<uint32_t> clocks;  // by thread; missing ones are 0

  void merge(const KnownBlock& other) {
    epoch = std::max(epoch, other.epoch);
    if (clocks.size() < other.clocks.size()) clocks.resize(other.clocks.size());
    for (size_t i = 0; i < other.clocks.size(); ++i) {
      clocks[i] = std::max(clocks[i], other.clocks[i]);
    }
  }
  bool holds(int thread, uint32_t access_epoch, uint32_t clock) const {
    if (access_epoch < epoch) return true;
    return static_cast<size_t>(thread) < clocks.size() &&
           clock <= clocks[static_cast<size_t>(thread)];
  }
};

using KnownWork = std::map<uint32_t, KnownBlock>;  // by block

inline void merge(KnownWork& into, const KnownWork& from) {
  for (const auto& [block, known] : from) into[block].merge(known);
}

}  // namespace llm::emu
