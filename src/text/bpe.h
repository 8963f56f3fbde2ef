// Byte-pair encoding of one piece of text by a ranked list of merges.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace llm {

/// Which two neighbouring tokens become one, and which merge goes first (the lowest rank).
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;
    int32_t result;
  };
  static constexpr uint32_t kNoRank = 0xffffffff;

  explicit MergeTable(size_t num_merges);

  /// False, and nothing is done, if the pair has a merge.
  bool add(int32_t left, int32_t right, Merge merge);

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
    size_t place = pair * 0x9e3779b97f4a7c15 >> shift_;  // 2^64 / golden ratio
    const size_t mask = slots_.size() - 1;
    while ((slots_[place].left != left || slots_[place].right != right) &&
           slots_[place].left != kNoToken) {
      place = (place + 1) & mask;
    }
    return place;
  }

  std::vector<Slot> slots_;  // open addressing; a power of two, at most 2/3 full
  int shift_;                // 64 - log2 of that
};

/// May be used from several threads at once.
class Bpe {
 public:
  struct Options {
    bool ignore_merges = false;        // a piece that is a token is never merged
    int32_t unknown_token = kNoToken;  // for each byte without a token; kNoToken: nothing
  };

  /// `vocabulary` outlives this and doesn't change.
  Bpe(const Vocabulary& vocabulary, MergeTable merges, Options options);

  /// Appends the ids of one piece. Takes n log n steps at most.
  void encode(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  /// Whether merging a token's bytes gives that very token; found out when first needed. (In odd
  /// vocabularies some don't: an earlier merge can break up what a later one needs.)
  enum class Whole : uint8_t { kUnknown, kYes, kNo };

  bool merges_to_itself(int32_t id, std::string_view piece) const;
  void append_merged(std::string_view piece, std::vector<int32_t>& ids) const;

  const Vocabulary* vocabulary_;
  MergeTable merges_;
  Options options_;
  std::array<int32_t, 256> byte_ids_;
  std::unique_ptr<std::atomic<Whole>[]> whole_;  // by id
};

}  // namespace llm
