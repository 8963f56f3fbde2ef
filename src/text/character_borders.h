// What a vocabulary's tokens say about the borders between characters: where no merge can reach
// across, whatever stands around it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/utf8.h"
#include "text/vocabulary.h"

namespace llm {

class CharacterBorders {
 public:
  explicit CharacterBorders(const Vocabulary& vocabulary);

  /// Bytes of the word at the beginning of a non-empty piece (well-formed UTF-8): up to the first
  /// two characters beyond ASCII that stand side by side in no token, as most pairs do in scripts
  /// without spaces. (Most pairs of ASCII are in some token: to look at them doesn't pay.)
  size_t first_word(std::string_view piece) const {
    CodePoint previous = code_point_at(piece, 0);
    for (size_t i = previous.length; i < piece.size();) {
      const CodePoint c = code_point_at(piece, i);
      if (previous.length > 1 && c.length > 1 && !side_by_side(previous.value, c.value) &&
          !crossed_by_part(piece[i - 1], piece[i])) {
        return i;
      }
      previous = c;
      i += c.length;
    }
    return piece.size();
  }

  /// Whether some token has these two bytes, the last one of a character and the first one of the
  /// next, but lacks another byte of these characters.
  bool crossed_by_part(char last, char first) const {
    const auto bit = static_cast<unsigned char>(first);
    return (parts_[static_cast<unsigned char>(last)][bit / 64] >> bit % 64 & 1) != 0;
  }

 private:
  static constexpr int kPairBits = 18;

  void add(std::string_view token);

  /// Whether some token may have these two. A pair that shares its bit with another seems to be in
  /// one, which does no harm.
  bool side_by_side(char32_t left, char32_t right) const {
    const size_t pair = hash(left, right);
    return (pairs_[pair / 64] >> pair % 64 & 1) != 0;
  }

  static size_t hash(char32_t left, char32_t right) {
    constexpr uint32_t kGolden = 0x9e3779b1;  // 2^32 / golden ratio, odd
    return ((left * 0x85ebca6bu) ^ right) * kGolden >> (32 - kPairBits);
  }

  std::vector<uint64_t> pairs_ = std::vector<uint64_t>((size_t{1} << kPairBits) / 64);
  std::array<std::array<uint64_t, 4>, 256> parts_{};  // by last byte, then a bit by first byte
};

}  // namespace llm
