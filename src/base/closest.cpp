#include "base/closest.h"

#include <algorithm>
#include <cstddef>

namespace llm {
namespace {

constexpr size_t kLongestWord = 64;  // longer ones are no misspelling of a name

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Changes between the words, by the table of optimal string alignment: cost[i][j] is for the first
/// i letters of a and the first j of b.
size_t changes_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      cost[i][j] =
          std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> closest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  if (word.size() > kLongestWord) return std::nullopt;
  const std::string* best = nullptr;
  size_t fewest = std::max<size_t>(1, word.size() / 3) + 1;
  const std::string* begun = nullptr;
  int begun_count = 0;
  for (const std::string& candidate : candidates) {
    const size_t changes = changes_between(word, candidate);
    if (changes < fewest && changes < word.size()) {
      fewest = changes;
      best = &candidate;
    }
    if (word.size() > 2 && candidate.starts_with(word)) {
      begun = &candidate;
      ++begun_count;
    }
  }
  if (best != nullptr) return *best;
  if (begun_count == 1) return *begun;
  return std::nullopt;
}

}  // namespace llm
