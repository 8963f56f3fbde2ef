// The words of a piece that can be merged apart, and merging those that are short: what most of a
// text without blanks is made of.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/merge_rules.h"
#include "text/vocabulary.h"

namespace llm {

/// Goes over the words of one piece. A character or byte that merging begins with is a symbol.
class WordSymbols {
 public:
  /// `piece` is well-formed UTF-8.
  WordSymbols(const MergeRules& rules, std::string_view piece) : rules_(rules), rest_(piece) {}

  bool at_end() const { return rest_.empty(); }

  /// The next word; all of the rest where there are no borders.
  std::string_view next_word();

  /// Whether the word is made of few symbols.
  bool are_few() const { return num_tokens_ > 0; }

  /// Appends what such a word gives: again and again the leftmost pair of the lowest rank.
  void append_merged_to(std::vector<int32_t>& ids);

 private:
  static constexpr size_t kFew = 12;

  void refresh(size_t position);
  void merge();

  const MergeRules& rules_;
  std::string_view rest_;
  std::array<int32_t, kFew> tokens_;
  std::array<MergeRules::Merge, kFew> merges_;  // of each token with the next one
  size_t num_tokens_ = 0;
};

}  // namespace llm
