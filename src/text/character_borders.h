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

  /// Whether the two, characters beyond ASCII, stand side by side in no token, as most pairs don't
  /// in scripts without spaces. Then merging stops between them, if crossed_by_part() doesn't tell
  /// otherwise. (Most pairs of ASCII are in some token: to look at them doesn't pay.)
  bool stand_apart(CodePoint left, CodePoint right) const {
    return left.length > 1 && right.length > 1 && !pairs_.may_have(left.value, right.value);
  }

  /// Whether some token has these two bytes, the last one of a character and the first one of the
  /// next, but lacks another byte of these characters.
  bool crossed_by_part(char last, char first) const {
    const auto bit = static_cast<unsigned char>(first);
    return (parts_[static_cast<unsigned char>(last)][bit / 64] >> bit % 64 & 1) != 0;
  }

  /// The same for a border between two characters that are known: a token that has all of one of
  /// them matters only where it's that one.
  bool crossed_by_part(CodePoint left, CodePoint right, char last, char first) const {
    return crossed_by_part(last, first) && (part_pairs_.may_have(left.value, part(first)) ||
                                            part_pairs_.may_have(part(last), right.value) ||
                                            part_pairs_.may_have(part(last), part(first)));
  }

 private:
  /// A set that may seem to have more than was put in, which does no harm here.
  class PairSet {
   public:
    void add(char32_t left, char32_t right) {
      const size_t bit = bit_of(left, right);
      bits_[bit / 64] |= uint64_t{1} << bit % 64;
    }
    bool may_have(char32_t left, char32_t right) const {
      const size_t bit = bit_of(left, right);
      return (bits_[bit / 64] >> bit % 64 & 1) != 0;
    }

   private:
    static constexpr int kBits = 18;

    static size_t bit_of(char32_t left, char32_t right) {
      constexpr uint32_t kGolden = 0x9e3779b1;  // 2^32 / golden ratio, odd
      return ((left * 0x85ebca6bu) ^ right) * kGolden >> (32 - kBits);
    }

    std::vector<uint64_t> bits_ = std::vector<uint64_t>((size_t{1} << kBits) / 64);
  };

  /// Stands for all characters that begin or end with this byte, when a token hasn't all of them.
  static char32_t part(char byte) { return 0x110000 + static_cast<unsigned char>(byte); }

  void add(std::string_view token);

  PairSet pairs_;                                     // side by side
  PairSet part_pairs_;                                // one of them or both a part()
  std::array<std::array<uint64_t, 4>, 256> parts_{};  // by last byte, then a bit by first byte
};

}  // namespace llm
