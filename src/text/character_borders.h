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
  bool part(CodePoint left, CodePoint right) const {
    return left.length > 1 && right.length > 1 && !side_by_side(left.value, right.value);
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
