// The order of the steps is that of SamplingParams. Ties are broken by the lower id everywhere, and
// the draw walks the kept ids in ascending order, so the result doesn't depend on how the kept set
// was found. All arithmetic is that of sampling_rule.h.
#include "backend/sampling.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "backend/most_probable.h"
#include "base/error.h"

namespace llm {
namespace {

bool all_below_infinity(std::span<const float> values) {
  int32_t bad = 0;
  for (const float x : values) bad |= static_cast<int32_t>(!(x < INFINITY));
  return bad == 0;
}

SampledId find_fault(std::span<const float> logits, int64_t num_ids) {
  if (!all_below_infinity(logits)) {
    for (size_t i = 0; i < logits.size(); ++i) {
      const int32_t id = static_cast<int32_t>(i);
      if (std::isnan(logits[i])) return {id, LogitFault::kNaN};
      if (logits[i] == INFINITY) return {id, LogitFault::kInfinite};
    }
  }
  if (largest_of(logits.first(static_cast<size_t>(num_ids))) == -INFINITY) {
    return {0, LogitFault::kAllMinusInf};
  }
  return {};
}

int32_t arg_max(std::span<const float> logits) {
  const auto first = std::find(logits.begin(), logits.end(), largest_of(logits));
  return static_cast<int32_t>(first - logits.begin());
}

/// Ids that may still be drawn, with their weights.
class Candidates {
 public:
  Candidates(std::span<const float> logits, const DrawRule& rule) : logits_(logits) {
    if (rule.top_k > 0 && static_cast<size_t>(rule.top_k) < logits.size()) keep_top_k(rule.top_k);
    weigh(rule.octaves);
    if (rule.top_p > 0) keep_top_p(rule.top_p);
    for (uint64_t& weight : weights_) weight = weight < rule.min_p ? 0 : weight;
  }

  /// The id at this share of the kept ids' weight.
  int32_t draw(uint64_t random) const {
    const uint64_t target = draw::target_of(random, total_weight());
    uint64_t passed = 0;
    size_t i = 0;
    while ((passed += weights_[i]) <= target) ++i;
    return id_at(i);
  }

 private:
  void keep_top_k(int64_t k) {
    for (const uint64_t rank : most_probable(logits_, static_cast<size_t>(k))) {
      ids_.push_back(draw::id_of(rank));
    }
    std::sort(ids_.begin(), ids_.end());
    for (const int32_t id : ids_) kept_logits_.push_back(logits_[static_cast<size_t>(id)]);
    logits_ = kept_logits_;
  }

  // In chunks, so that all but the last shift runs as vectors.
  void weigh(float octaves) {
    constexpr size_t kChunk = 256;
    uint32_t fractions[kChunk];
    uint32_t shifts[kChunk];
    const float largest = largest_of(logits_);
    weights_.resize(logits_.size());
    for (size_t begin = 0; begin < logits_.size(); begin += kChunk) {
      const size_t size = std::min(kChunk, logits_.size() - begin);
      for (size_t i = 0; i < size; ++i) {
        const auto parts = draw::weight_parts(logits_[begin + i], largest, octaves);
        fractions[i] = parts.fraction;
        shifts[i] = parts.shift;
      }
      for (size_t i = 0; i < size; ++i) {
        weights_[begin + i] = draw::weight_of({fractions[i], shifts[i]});
      }
    }
  }

  /// Keeps the fewest of the most probable ids whose share of all candidates reaches top_p. Whole
  /// bins of weights are kept or dropped; only the ids of one are put in order.
  void keep_top_p(uint64_t top_p) {
    const uint64_t wanted = draw::wanted_weight(top_p, total_weight());
    uint64_t sums[draw::kWeightBins] = {};
    for (const uint64_t weight : weights_) sums[draw::bin_of(weight)] += weight;
    int bin = draw::kWeightBins - 1;
    uint64_t above = 0;
    for (; above + sums[bin] < wanted; --bin) above += sums[bin];

    const uint64_t least = least_rank(bin, wanted - above);
    for (size_t i = 0; i < weights_.size(); ++i) {
      const int own = draw::bin_of(weights_[i]);
      const bool kept = own == bin ? rank_at(i) >= least : own > bin;
      weights_[i] = kept ? weights_[i] : 0;
    }
  }

  /// Of the most probable ids of a bin, whose weights reach `wanted`, the last one's rank.
  uint64_t least_rank(int bin, uint64_t wanted) const {
    struct Member {
      uint64_t rank;
      uint64_t weight;
    };
    std::vector<Member> members;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (draw::bin_of(weights_[i]) == bin) members.push_back({rank_at(i), weights_[i]});
    }
    // It is in [first, last), which is halved.
    auto first = members.begin();
    auto last = members.end();
    while (last - first > 1) {
      const auto middle = first + (last - first) / 2;
      std::nth_element(first, middle, last,
                       [](const Member& a, const Member& b) { return a.rank > b.rank; });
      uint64_t sum = 0;
      for (auto i = first; i != middle; ++i) sum += i->weight;
      if (sum >= wanted) {
        last = middle;
      } else {
        wanted -= sum;
        first = middle;
      }
    }
    return first->rank;
  }

  int32_t id_at(size_t i) const { return ids_.empty() ? static_cast<int32_t>(i) : ids_[i]; }
  uint64_t rank_at(size_t i) const { return draw::rank_of(logits_[i], id_at(i)); }

  uint64_t total_weight() const {
    return std::accumulate(weights_.begin(), weights_.end(), uint64_t{0});
  }

  std::vector<int32_t> ids_;  // ascending; empty = all
  std::vector<float> kept_logits_;
  std::span<const float> logits_;  // of the candidates
  std::vector<uint64_t> weights_;  // the same, 0 = not kept
};

void check_range(const char* name, float value, bool inside, const char* range) {
  if (!std::isfinite(value) || !inside) refuse("{} is {}, but must be {}", name, value, range);
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  uint32_t words[4] = {counter[0], counter[1], counter[2], counter[3]};
  draw::philox(words, key[0], key[1]);
  return {words[0], words[1], words[2], words[3]};
}

double uniform(uint64_t seed, uint64_t counter) {
  return static_cast<double>(draw::random_53(seed, counter)) * 0x1p-53;
}

void validate(const SamplingParams& p) {
  check_range("temperature", p.temperature, p.temperature >= 0, "0 or more");
  if (p.top_k < -1) refuse("top_k is {}, but must be 1 or more, or 0 or -1 for off", p.top_k);
  check_range("top_p", p.top_p, p.top_p > 0 && p.top_p <= 1, "above 0 and at most 1");
  check_range("min_p", p.min_p, p.min_p >= 0 && p.min_p <= 1, "from 0 to 1");
  check_range("repetition_penalty", p.repetition_penalty, p.repetition_penalty > 0, "above 0");
  check_range("presence_penalty", p.presence_penalty, true, "a finite number");
  check_range("frequency_penalty", p.frequency_penalty, true, "a finite number");
}

// In lanes, so that it runs as vectors.
float largest_of(std::span<const float> values) {
  constexpr size_t kLanes = 16;
  float lanes[kLanes];
  std::fill(std::begin(lanes), std::end(lanes), -INFINITY);
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lanes[j] = std::max(lanes[j], values[i + j]);
  }
  for (; i < values.size(); ++i) lanes[0] = std::max(lanes[0], values[i]);
  return *std::max_element(std::begin(lanes), std::end(lanes));
}

int32_t id_of(const SampledId& sampled) {
  switch (sampled.fault) {
    case LogitFault::kNone:
      return sampled.id;
    case LogitFault::kNaN:
      fail("the logit of token {} is not a number (NaN)", sampled.id);
    case LogitFault::kInfinite:
      fail("the logit of token {} is infinite", sampled.id);
    case LogitFault::kAllMinusInf:
      fail("every logit is minus infinity: no token can be chosen");
  }
  fail("unknown fault of logits");
}

void check_logits(std::span<const float> logits, int64_t num_ids) {
  id_of(find_fault(logits, num_ids));
}

bool is_greedy(const SamplingParams& p) { return p.temperature == 0.0f || p.top_k == 1; }

bool has_penalties(const SamplingParams& p) {
  return p.repetition_penalty != 1.0f || p.presence_penalty != 0.0f || p.frequency_penalty != 0.0f;
}

DrawRule draw_rule(const SamplingParams& p) {
  DrawRule rule;
  rule.seed = p.seed;
  if (is_greedy(p)) return rule;
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kMost = std::numeric_limits<float>::max();  // of temperatures near 0
  rule.octaves = static_cast<float>(std::min(kLog2E / static_cast<double>(p.temperature), kMost));
  rule.top_k = static_cast<int32_t>(std::clamp<int64_t>(p.top_k, 0, INT32_MAX));
  if (p.top_p < 1.0f) {
    rule.top_p = std::max<uint64_t>(1, static_cast<uint64_t>(std::ldexp(double{p.top_p}, 64)));
  }
  const double least = std::ceil(std::ldexp(double{p.min_p}, draw::kWeightBits));
  rule.min_p = std::max<uint64_t>(1, static_cast<uint64_t>(least));
  return rule;
}

Penalties penalties_of(const SamplingParams& p) {
  return {p.repetition_penalty, p.presence_penalty, p.frequency_penalty};
}

std::vector<IdCount> penalised_ids(const SampleRow& row) {
  if (!has_penalties(*row.params)) return {};
  std::unordered_map<int32_t, int32_t> counts;
  if (row.params->repetition_penalty != 1.0f) {
    for (const int32_t id : row.prompt_ids) counts.try_emplace(id, 0);
  }
  for (const int32_t id : row.output_ids) ++counts[id];
  std::vector<IdCount> ids;
  ids.reserve(counts.size());
  for (const auto& [id, count] : counts) {
    if (id >= 0 && id < row.num_ids) ids.push_back({id, count});
  }
  return ids;
}

SampledId sample_row(std::span<const float> logits, const SampleRow& row) {
  const SamplingParams& params = *row.params;
  const int64_t width = std::ssize(logits);
  LLM_CHECK(row.num_ids > 0 && row.num_ids <= width && width <= draw::kMaxIds, "{} ids, {} logits",
            row.num_ids, width);
  if (const SampledId bad = find_fault(logits, row.num_ids); bad.fault != LogitFault::kNone) {
    return bad;
  }
  std::span<const float> allowed = logits.first(static_cast<size_t>(row.num_ids));
  std::vector<float> penalised;
  if (has_penalties(params)) {
    penalised.assign(allowed.begin(), allowed.end());
    for (const IdCount& seen : penalised_ids(row)) {
      float& logit = penalised[static_cast<size_t>(seen.id)];
      logit = draw::penalised(logit, seen.count, penalties_of(params));
    }
    allowed = penalised;
  }
  if (is_greedy(params)) return {arg_max(allowed)};
  return {
      Candidates(allowed, draw_rule(params)).draw(draw::random_53(params.seed, row.num_drawn()))};
}

}  // namespace llm
