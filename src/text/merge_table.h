// Which two neighbouring tokens become one, and which merge goes first (the lowest rank).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/huge_page_allocator.h"
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
    while (capacity / 3 * 2 < num_merges + 1) {
      capacity *= 2;
      --shift_;
    }
    slots_.resize(capacity);
    marks_.resize(capacity);
  }

  /// False, and nothing is done, if the pair has a merge.
  bool add(int32_t left, int32_t right, Merge merge) {
    const Place place = place_of(left, right);
    Slot& slot = slots_[slot_from(place.home, left, right)];
    if (slot.left != kNoToken) return false;
    slot = {left, right, merge};
    if (static_cast<size_t>(merge.result) >= splits_.size()) {
      splits_.resize(std::max<size_t>(merge.result + 1, splits_.size() * 2));
    }
    if (splits_[merge.result].rank == kNoRank) splits_[merge.result] = {left, right, merge.rank};
    marks_[place.home] |= place.mark;
    return true;
  }

  /// Rank kNoRank if the two don't merge.
  Merge find(int32_t left, int32_t right) const {
    const Place place = place_of(left, right);
    return may_merge(place) ? slots_[slot_from(place.home, left, right)].merge
                            : Merge{kNoRank, kNoToken};
  }

  /// Says that find(left, right), or add(), comes soon.
  void prefetch(int32_t left, int32_t right) const {
    const Place place = place_of(left, right);
    if (may_merge(place)) __builtin_prefetch(&slots_[place.home]);
  }
  void prefetch_for_add(int32_t left, int32_t right) const {
    __builtin_prefetch(&slots_[place_of(left, right).home]);
  }

  /// The merge that gives this token, the first one if there are several; rank kNoRank if none
  /// does.
  struct Split {
    int32_t left = kNoToken;
    int32_t right = kNoToken;
    uint32_t rank = kNoRank;
  };
  Split split_of(int32_t token) const {
    return static_cast<size_t>(token) < splits_.size() ? splits_[token] : Split();
  }

  /// By token: the lowest rank of a merge that it takes part in, or kNoRank.
  std::vector<uint32_t> lowest_ranks(int32_t num_ids) const {
    std::vector<uint32_t> lowest(static_cast<size_t>(num_ids), kNoRank);
    for (const Slot& slot : slots_) {
      if (slot.left == kNoToken) continue;
      lowest[slot.left] = std::min(lowest[slot.left], slot.merge.rank);
      lowest[slot.right] = std::min(lowest[slot.right], slot.merge.rank);
    }
    return lowest;
  }

 private:
  struct Slot {
    int32_t left = kNoToken;
    int32_t right = kNoToken;
    Merge merge = {kNoRank, kNoToken};
  };

  struct Place {
    size_t home;   // the first slot to look at
    uint8_t mark;  // one bit
  };
  Place place_of(int32_t left, int32_t right) const {
    const uint64_t pair =
        static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    const uint64_t hash = (pair ^ pair >> 21) * 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
    const size_t home = static_cast<size_t>(hash >> shift_);
    return {home, static_cast<uint8_t>(1u << (hash >> (shift_ - 3) & 7))};
  }

  /// Most pairs that are asked for don't merge. The marks, which fit into a nearer memory than the
  /// slots, know that of nearly all of them.
  bool may_merge(Place place) const { return (marks_[place.home] & place.mark) != 0; }

  size_t slot_from(size_t home, int32_t left, int32_t right) const {
    const size_t mask = slots_.size() - 1;
    size_t place = home;
    while ((slots_[place].left != left || slots_[place].right != right) &&
           slots_[place].left != kNoToken) {
      place = (place + 1) & mask;
    }
    return place;
  }

  std::vector<Split> splits_;   // by token
  std::vector<uint8_t> marks_;  // by home, of all pairs that have it
  HugePageVector<Slot> slots_;  // open addressing; a power of two, at most 2/3 full
  int shift_;                   // 64 - log2 of that
};

}  // namespace llm
