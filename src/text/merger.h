// Merging the bytes of one piece of text, by the plain algorithm on short stretches of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/merge_rules.h"

namespace llm {

/// One stretch of bytes, merged on its own: again and again the leftmost pair of the lowest rank.
class MergedStretch {
 public:
  static constexpr size_t kMaxBytes = 256;

  /// bytes.size() <= kMaxBytes.
  void merge(const MergeRules& rules, std::string_view bytes);

  /// Positions of the tokens: begin() is the first one's, next(p) the following one's, end() is
  /// behind the last one.
  size_t begin() const { return first_; }
  size_t next(size_t position) const { return next_[position]; }
  size_t end() const { return end_; }
  int32_t token(size_t position) const { return tokens_[position]; }

  /// Of all merges that were done; 0 if there was none.
  uint32_t highest_rank() const { return highest_rank_; }

 private:
  void link(size_t position, size_t next);
  void begin_with_symbols(const MergeRules& rules, std::string_view bytes);
  /// Notes the merge of the token at `position` with the one behind it.
  void refresh(const MergeRules& rules, size_t position);
  uint32_t lowest_key() const;

  static constexpr size_t kLanes = 8;  // keys that lowest_key() compares at once
  static constexpr uint32_t kNoKey = 0xffffffff;

  // All by position, that is by a token's first byte. Keys are rank << 8 | position.
  alignas(64) std::array<uint32_t, kMaxBytes> keys_;
  std::array<int32_t, kMaxBytes> tokens_;
  std::array<int32_t, kMaxBytes> results_;    // of the merges that the keys stand for
  std::array<uint16_t, kMaxBytes + 1> next_;  // end_ behind the last one
  std::array<uint16_t, kMaxBytes + 1> previous_;
  size_t first_ = 0;
  size_t end_ = 0;
  uint32_t highest_rank_ = 0;
};

/// Appends the tokens of a piece of any length, in n log n steps at most. Up to `window` bytes are
/// merged as one stretch, which is a matter of speed alone.
void append_merged(const MergeRules& rules, std::string_view piece, std::vector<int32_t>& ids,
                   size_t window = 64);

}  // namespace llm
