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

/// Goes over the words of one piece. What merging begins with, a character or a byte, is a symbol.
class WordSymbols {
 public:
  /// `piece` is well-formed UTF-8.
  WordSymbols(const MergeRules& rules, std::string_view piece) : rules_(rules), rest_(piece) {}

  struct Word {
    const char* bytes;
    size_t size;
    uint32_t begin;  // of its symbols
    uint32_t count;  // 0: they are many
  };

  /// The next word, whose symbols are there until the next call; false behind the last one.
  bool next(Word& word) {
    if (next_word_ == num_words_ && !read_words()) return false;
    word = words_[next_word_++];
    return true;
  }

  /// Appends what a word of few symbols gives: again and again the leftmost pair of the lowest
  /// rank.
  void append_merged(const Word& word, std::vector<int32_t>& ids) {
    int32_t* tokens = tokens_.data() + word.begin;
    if (word.count == 1) return ids.push_back(*tokens);
    const size_t count = word.count == 2 ? merge_two(tokens) : merge(tokens, word.count);
    for (size_t i = 0; i < count; ++i) ids.push_back(tokens[i]);
  }

 private:
  static constexpr size_t kFew = 16;
  static constexpr size_t kMaxWords = 32;

  bool read_words();
  std::string_view read_word();
  void add(int32_t token);
  // In place; they return how many tokens are left.
  size_t merge_two(int32_t* tokens) const {
    const MergeRules::Merge merge = rules_.find(tokens[0], tokens[1]);
    if (merge.rank == MergeTable::kNoRank) return 2;
    tokens[0] = merge.result;
    return 1;
  }
  size_t merge(int32_t* tokens, size_t count) const;

  const MergeRules& rules_;
  std::string_view rest_;
  std::array<Word, kMaxWords> words_;  // read ahead
  size_t num_words_ = 0;
  size_t next_word_ = 0;
  std::array<int32_t, kMaxWords*(kFew + 1)> tokens_;  // their symbols
  size_t num_tokens_ = 0;
  size_t word_begin_ = 0;  // of the word that is read, in tokens_
};

}  // namespace llm
