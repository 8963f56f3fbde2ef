// Which two neighbouring tokens become one, and which merge goes first (the lowest rank).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/vocabulary.h"

namespace llm {

class MergeTable {
 public:
  struct Merge {
    uint32_t rank;
    int32_t result;
  };
  static constexpr uint32_t kNoRank = 0xffffffff;
  /// Ranks are less than this.
  static constexpr uint32_t kMaxMerges = 1 << 24;

  explicit MergeTable(size_t num_merges) : shift_(60) {
    size_t capacity = 16;
    // Most pairs that are asked for don't merge, and an emptier table answers those sooner.
    while (capacity / 2 < num_merges + 1) {
      capacity *= 2;
      --shift_;
    }
    slots_.resize(capacity);
  }

  /// False, and nothing is done, if the pair has a merge.
  bool add(int32_t left, int32_t right, Merge merge) {
    Slot& slot = slots_[slot_for(left, right)];
    if (slot.left != kNoToken) return false;
    slot = {left, right, merge};
    return true;
  }

  /// Rank kNoRank if the two don't merge.
  Merge find(int32_t left, int32_t right) const { return slots_[slot_for(left, right)].merge; }

 private:
  struct Slot {
    int32_t left = kNoToken;
    int32_t right = kNoToken;
    Merge merge = {kNoRank, kNoToken};
  };

  size_t slot_for(int32_t left, int32_t right) const {
    const uint64_t pair =
        static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    size_t place = (pair ^ pair >> 21) * 0x9e3779b97f4a7c15 >> shift_;  // 2^64 / golden ratio
    const size_t mask = slots_.size() - 1;
    while ((slots_[place].left != left || slots_[place].right != right) &&
           slots_[place].left != kNoToken) {
      place = (place + 1) & mask;
    }
    return place;
  }

  std::vector<Slot> slots_;  // open addressing; a power of two, at most half full
  int shift_;                // 64 - log2 of that
};

}  // namespace llm
