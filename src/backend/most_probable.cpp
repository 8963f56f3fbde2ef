// One pass: a logit that isn't larger than the least of those kept, as nearly all are, costs a
// comparison. Where many are wanted, all ranks are partitioned instead.
#include "backend/most_probable.h"

#include <algorithm>
#include <functional>

#include "backend/sampling_rule.h"

namespace llm {
namespace {

constexpr size_t kScanMost = 512;

/// The most probable of all in no order, by a heap with the least of those kept in front.
std::vector<uint64_t> scan(std::span<const float> logits, size_t most) {
  std::vector<uint64_t> kept;
  kept.reserve(most);
  size_t i = 0;
  for (; i < most; ++i) kept.push_back(draw::rank_of(logits[i], static_cast<int32_t>(i)));
  std::make_heap(kept.begin(), kept.end(), std::greater<>());
  float least = draw::logit_of(kept.front());
  for (; i < logits.size(); ++i) {
    if (!(logits[i] > least)) continue;
    std::pop_heap(kept.begin(), kept.end(), std::greater<>());
    kept.back() = draw::rank_of(logits[i], static_cast<int32_t>(i));
    std::push_heap(kept.begin(), kept.end(), std::greater<>());
    least = draw::logit_of(kept.front());
  }
  return kept;
}

std::vector<uint64_t> partition(std::span<const float> logits, size_t most) {
  std::vector<uint64_t> ranks(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    ranks[i] = draw::rank_of(logits[i], static_cast<int32_t>(i));
  }
  if (most < ranks.size()) {
    const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(most);
    std::nth_element(ranks.begin(), end, ranks.end(), std::greater<>());
    ranks.resize(most);
  }
  return ranks;
}

}  // namespace

std::vector<uint64_t> most_probable(std::span<const float> logits, size_t most) {
  most = std::min(most, logits.size());
  if (most == 0) return {};
  std::vector<uint64_t> ranks = most <= kScanMost ? scan(logits, most) : partition(logits, most);
  std::sort(ranks.begin(), ranks.end(), std::greater<>());
  return ranks;
}

}  // namespace llm
