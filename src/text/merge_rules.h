// How the bytes of a text become tokens: what they are before any merge, and what merges.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/character_borders.h"
#include "text/merge_table.h"
#include "text/vocabulary.h"

namespace llm {

class MergeRules {
 public:
  using Merge = MergeTable::Merge;

  struct Symbol {
    int32_t token;  // kNoToken: this byte is left out
    size_t length;  // bytes
  };

  /// `unknown_token` stands for each byte without a token; kNoToken: nothing does.
  MergeRules(const Vocabulary& vocabulary, MergeTable merges, int32_t unknown_token);

  /// kNoToken: it is left out.
  int32_t byte_token(char byte) const { return byte_tokens_[static_cast<unsigned char>(byte)]; }

  /// What stands at `position` when merging begins: a byte, or a whole character where that comes
  /// to the same.
  Symbol symbol_at(std::string_view text, size_t position) const {
    if (static_cast<unsigned char>(text[position]) >= 0xc0 && borders_) {
      const Symbol character = character_at(text, position);
      if (character.token != kNoToken) return character;
    }
    return {byte_token(text[position]), 1};
  }

  /// The token that a character is as a whole when merging begins, unless a token reaches across
  /// one of its borders to a part of it; kNoToken: it begins as bytes. Only where there are
  /// borders().
  int32_t early_token(char32_t character) const {
    return character < kNumCharacters ? early_characters_[character] : kNoToken;
  }

  /// Rank kNoRank if the two don't merge.
  Merge find(int32_t left, int32_t right) const { return merges_.find(left, right); }

  /// Says that find(left, right) comes soon.
  void prefetch(int32_t left, int32_t right) const { merges_.prefetch(left, right); }

  MergeTable::Split split_of(int32_t token) const { return merges_.split_of(token); }

  /// Borders at which the words of a piece may be merged apart; none where bytes are left out or
  /// replaced, since then tokens meet that the text keeps apart.
  const std::optional<CharacterBorders>& borders() const { return borders_; }

 private:
  static constexpr char32_t kNumCharacters = 0x10000;

  Symbol character_at(std::string_view text, size_t position) const;
  void find_early_characters(const Vocabulary& vocabulary);

  MergeTable merges_;
  std::array<int32_t, 256> byte_tokens_;
  std::optional<CharacterBorders> borders_;
  std::vector<int32_t> early_characters_;  // by code point
};

}  // namespace llm
