// Which two neighbouring tokens become one, and which merge goes first (the lowest rank).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/huge_page_allocator.h"
#include "text/vocabulary.h"

namespace llm {

/// A bit for each token.
class TokenSet {
 public:
  void add(int32_t token) {
    const size_t i = static_cast<size_t>(token);
    if (i / 64 >= bits_.size()) bits_.resize(std::max(i / 64 + 1, bits_.size() * 2));
    bits_[i / 64] |= uint64_t{1} << i % 64;
  }
  bool has(int32_t token) const {
    const size_t i = static_cast<size_t>(token);
    return i / 64 < bits_.size() && (bits_[i / 64] >> i % 64 & 1) != 0;
  }

 private:
  std::vector<uint64_t> bits_;
};

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
  }

  /// False, and nothing is done, if the pair has a merge.
  bool add(int32_t left, int32_t right, Merge merge) {
    Slot& slot = slots_[slot_for(left, right)];
    if (slot.left != kNoToken) return false;
    slot = {left, right, merge};
    if (static_cast<size_t>(merge.result) >= splits_.size()) {
      splits_.resize(std::max<size_t>(merge.result + 1, splits_.size() * 2));
    }
    if (splits_[merge.result].rank == kNoRank) splits_[merge.result] = {left, right, merge.rank};
    lefts_.add(left);
    rights_.add(right);
    return true;
  }

  /// Rank kNoRank if the two don't merge.
  Merge find(int32_t left, int32_t right) const {
    return may_merge(left, right) ? slots_[slot_for(left, right)].merge : Merge{kNoRank, kNoToken};
  }

  /// Says that find(left, right), or add(), comes soon.
  void prefetch(int32_t left, int32_t right) const {
    if (may_merge(left, right)) __builtin_prefetch(&slots_[home_of(left, right)]);
  }
  void prefetch_for_add(int32_t left, int32_t right) const {
    __builtin_prefetch(&slots_[home_of(left, right)]);
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

  /// Whether there is any merge with this token on the left, and any with that one on the right.
  /// These few bits, always at hand, answer most questions about pairs that don't merge.
  bool may_merge(int32_t left, int32_t right) const {
    return lefts_.has(left) && rights_.has(right);
  }

  size_t home_of(int32_t left, int32_t right) const {
    const uint64_t pair =
        static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    return (pair ^ pair >> 21) * 0x9e3779b97f4a7c15 >> shift_;  // 2^64 / golden ratio
  }

  size_t slot_for(int32_t left, int32_t right) const {
    size_t place = home_of(left, right);
    const size_t mask = slots_.size() - 1;
    while ((slots_[place].left != left || slots_[place].right != right) &&
           slots_[place].left != kNoToken) {
      place = (place + 1) & mask;
    }
    return place;
  }

  std::vector<Split> splits_;  // by token
  TokenSet lefts_;
  TokenSet rights_;
  HugePageVector<Slot> slots_;  // open addressing; a power of two, at most 2/3 full
  int shift_;                   // 64 - log2 of that
};

}  // namespace llm
