// General categories as the reference tokenizer's regular expressions have them, and sets of
// characters made of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace llm {

enum class GeneralCategory : uint8_t {
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,  // letters
  kMn,
  kMc,
  kMe,  // marks
  kNd,
  kNl,
  kNo,  // numbers
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,  // punctuation
  kSm,
  kSc,
  kSk,
  kSo,  // symbols
  kZs,
  kZl,
  kZp,  // separators
  kCc,
  kCf,
  kCs,
  kCo,
  kCn,  // the rest
};

namespace general_category_tables {

/// From `first` up to the next range's first code point all have this category.
struct Range {
  uint32_t first;
  GeneralCategory category;
};

inline constexpr int kNumRanges = 4099;
extern const Range kRanges[kNumRanges];  // ascending; the first begins at 0

}  // namespace general_category_tables

/// Bit 1 << category for each category whose name is `name` ("Lu") or begins with it ("L"); 0 for
/// an unknown name.
uint32_t categories_named(std::string_view name);

/// A set of code points, as ascending ranges with gaps between them.
class CharSet {
 public:
  struct Range {
    char32_t first;
    char32_t last;  // inclusive
    bool operator==(const Range&) const = default;
  };

  void add(char32_t first, char32_t last);
  void add(const CharSet& other);
  void add_categories(uint32_t mask);
  void add_white_space();
  void invert();

  const std::vector<Range>& ranges() const { return ranges_; }
  bool operator==(const CharSet&) const = default;

 private:
  void put_in_order();
  std::vector<Range> ranges_;
};

/// The same for fast look-ups.
class CharTable {
 public:
  explicit CharTable(CharSet set);

  bool contains(char32_t c) const {
    if (c < kNumAscii || !others_.empty()) return bit(c < kNumAscii ? ascii_ : others_, c);
    return in_ranges(c);
  }
  const CharSet& set() const { return set_; }

  /// A set of more ranges gets a bit for every code point (136 KiB).
  static constexpr size_t kMaxRanges = 8;

 private:
  static constexpr char32_t kNumAscii = 0x80;
  using Bits = std::vector<uint64_t>;

  static bool bit(const Bits& bits, char32_t c) { return (bits[c / 64] >> c % 64 & 1) != 0; }
  bool in_ranges(char32_t c) const;

  CharSet set_;
  Bits ascii_;
  Bits others_;  // ASCII too; empty where the ranges are few
};

/// What \w means where the reference looks for whole words: letters, marks, decimal digits,
/// connectors, and what Unicode counts as alphabetic besides.
CharSet word_characters();

}  // namespace llm
