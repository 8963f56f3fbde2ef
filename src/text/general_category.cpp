#include "text/general_category.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/unicode.h"
#include "text/unicode_tables.h"

namespace llm {
namespace {

constexpr char32_t kNumCodePoints = 0x110000;

// In the order of GeneralCategory.
constexpr std::array<std::string_view, 30> kNames = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};

}  // namespace

uint32_t categories_named(std::string_view name) {
  uint32_t mask = 0;
  if (name.empty()) return mask;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i].starts_with(name)) mask |= 1u << i;
  }
  return mask;
}

void CharSet::add(char32_t first, char32_t last) {
  ranges_.push_back({first, last});
  put_in_order();
}

void CharSet::add(const CharSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  put_in_order();
}

void CharSet::add_categories(uint32_t mask) {
  using general_category_tables::kNumRanges;
  using general_category_tables::kRanges;
  for (int i = 0; i < kNumRanges; ++i) {
    if ((mask >> static_cast<int>(kRanges[i].category) & 1) == 0) continue;
    ranges_.push_back(
        {kRanges[i].first, (i + 1 < kNumRanges ? kRanges[i + 1].first : kNumCodePoints) - 1});
  }
  put_in_order();
}

void CharSet::add_white_space() {
  constexpr char32_t kLastSpace = 0x3000;
  for (char32_t c = 0; c <= kLastSpace; ++c) {
    if (char_class(c) == CharClass::kSpace) ranges_.push_back({c, c});
  }
  put_in_order();
}

void CharSet::invert() {
  std::vector<Range> others;
  char32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next < kNumCodePoints) others.push_back({next, kNumCodePoints - 1});
  ranges_ = std::move(others);
}

void CharSet::put_in_order() {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  size_t kept = 0;
  for (const Range& range : ranges_) {
    if (kept > 0 && range.first <= ranges_[kept - 1].last + 1) {
      ranges_[kept - 1].last = std::max(ranges_[kept - 1].last, range.last);
    } else {
      ranges_[kept++] = range;
    }
  }
  ranges_.resize(kept);
}

CharTable::CharTable(CharSet set) : set_(std::move(set)), ascii_(kNumAscii / 64) {
  if (set_.ranges().size() > kMaxRanges) others_.resize(kNumCodePoints / 64);
  for (const CharSet::Range& range : set_.ranges()) {
    for (char32_t c = range.first; c <= range.last; ++c) {
      if (c < kNumAscii) ascii_[c / 64] |= uint64_t{1} << c % 64;
      if (others_.empty()) {
        if (c >= kNumAscii) break;
      } else if (c % 64 == 0 && range.last - c >= 63) {
        others_[c / 64] = ~uint64_t{0};
        if (c >= kNumAscii) c += 63;
      } else {
        others_[c / 64] |= uint64_t{1} << c % 64;
      }
    }
  }
}

bool CharTable::in_ranges(char32_t c) const {
  for (const CharSet::Range& range : set_.ranges()) {
    if (c <= range.last) return c >= range.first;
  }
  return false;
}

CharSet word_characters() {
  struct Range {
    char32_t first;
    char32_t last;
  };
  // Joiners, and letters in circles and squares, which are symbols.
  constexpr std::array kOthers = {Range{0x200c, 0x200d}, Range{0x24b6, 0x24e9},
                                  Range{0x1f130, 0x1f149}, Range{0x1f150, 0x1f169},
                                  Range{0x1f170, 0x1f189}};
  CharSet set;
  set.add_categories(categories_named("L") | categories_named("M") | categories_named("Nd") |
                     categories_named("Nl") | categories_named("Pc"));
  for (const Range& range : kOthers) set.add(range.first, range.last);
  return set;
}

}  // namespace llm
