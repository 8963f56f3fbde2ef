// In which order the threads of a block run, and the blocks of a launch start.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/emu/settings.h"

namespace llm::emu {

/// A permutation of [0, count) for blocks.
std::vector<int64_t> block_order(const Settings& settings, int64_t count);

/// A permutation of a block's threads, first to run first: warps stay together where order is
/// random, warps and the lanes within each are shuffled, differently for each block.
void thread_order(const Settings& settings, int64_t block, int num_threads,
                  std::vector<int>& order);

/// Which of at most 1024 ranks are ready to run.
class ReadySet {
 public:
  void insert(int rank) {
    words_[rank >> 6] |= uint64_t{1} << (rank & 63);
    nonzero_ |= 1U << (rank >> 6);
  }
  void erase(int rank) {
    uint64_t& word = words_[rank >> 6];
    word &= ~(uint64_t{1} << (rank & 63));
    if (word == 0) nonzero_ &= ~(1U << (rank >> 6));
  }
  /// The lowest rank, or -1.
  int first() const {
    if (nonzero_ == 0) return -1;
    const int word = __builtin_ctz(nonzero_);
    return word * 64 + __builtin_ctzll(words_[word]);
  }
  /// The lowest rank above this one, or else the lowest of all, or -1.
  int first_after(int rank) const;
  void clear() { *this = ReadySet(); }

 private:
  uint64_t words_[16] = {};
  unsigned nonzero_ = 0;  // bit i: words_[i] isn't 0
};

}  // namespace llm::emu
