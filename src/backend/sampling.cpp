// The order of the steps is that of SamplingParams. Ties are broken by the lower id everywhere, and
// the draw walks the kept ids in ascending order, so the result doesn't depend on how the kept set
// was found.
#include "backend/sampling.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace llm {
namespace {

// Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011): multipliers of the two
// lanes and the Weyl increments of the key.
constexpr uint32_t kPhiloxM0 = 0xD2511F53;
constexpr uint32_t kPhiloxM1 = 0xCD9E8D57;
constexpr uint32_t kPhiloxW0 = 0x9E3779B9;
constexpr uint32_t kPhiloxW1 = 0xBB67AE85;
constexpr int kPhiloxRounds = 10;

// How many of the most probable ids are sorted at first in search of top-p, and the growth after.
constexpr size_t kFirstNucleus = 128;
constexpr size_t kNucleusGrowth = 8;

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

void apply_penalties(std::span<float> logits, const SampleRow& row) {
  const SamplingParams& p = *row.params;
  const auto in_range = [&](int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < logits.size();
  };
  std::unordered_map<int32_t, int> counts;  // of the output; the prompt's ids count 0
  if (p.repetition_penalty != 1.0f) {
    for (const int32_t id : row.prompt_ids) counts.try_emplace(id, 0);
  }
  for (const int32_t id : row.output_ids) ++counts[id];
  for (const auto& [id, count] : counts) {
    if (!in_range(id)) continue;
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / p.repetition_penalty : logit * p.repetition_penalty;
    if (count > 0) {
      logit -= p.presence_penalty + p.frequency_penalty * static_cast<float>(count);
    }
  }
}

bool has_penalties(const SamplingParams& p) {
  return p.repetition_penalty != 1.0f || p.presence_penalty != 0.0f || p.frequency_penalty != 0.0f;
}

int32_t arg_max(std::span<const float> logits) {
  const auto first = std::find(logits.begin(), logits.end(), largest_of(logits));
  return static_cast<int32_t>(first - logits.begin());
}

/// The order in which ids are kept: by logit, then the lower id.
struct MoreProbable {
  std::span<const float> logits;
  bool operator()(int32_t a, int32_t b) const {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  }
};

/// Ids that may still be drawn, with their weight exp((logit - largest) / temperature).
class Candidates {
 public:
  Candidates(std::span<const float> logits, float temperature)
      : logits_(logits),
        more_probable_{logits},
        largest_(largest_of(logits)),
        temperature_(temperature) {
    ids_.resize(logits.size());
    std::iota(ids_.begin(), ids_.end(), 0);
  }

  void keep_top_k(int64_t k) {
    if (k <= 0 || static_cast<size_t>(k) >= ids_.size()) return;
    std::nth_element(ids_.begin(), ids_.begin() + (k - 1), ids_.end(), more_probable_);
    ids_.resize(static_cast<size_t>(k));
  }

  /// Keeps the fewest of the most probable ids whose share of all candidates reaches p.
  void keep_top_p(float p) {
    if (p >= 1.0f) return;
    const double wanted = static_cast<double>(p) * total_weight();
    double reached = 0;
    size_t sorted = 0;  // ids_[0, sorted) are the most probable, in order
    size_t next = std::min(kFirstNucleus, ids_.size());
    while (sorted < ids_.size()) {
      const auto begin = ids_.begin() + static_cast<std::ptrdiff_t>(sorted);
      const auto end = ids_.begin() + static_cast<std::ptrdiff_t>(next);
      if (end != ids_.end()) std::nth_element(begin, end, ids_.end(), more_probable_);
      std::sort(begin, end, more_probable_);
      for (; sorted < next; ++sorted) {
        reached += weight(ids_[sorted]);
        if (reached >= wanted) {
          ids_.resize(sorted + 1);
          return;
        }
      }
      next = std::min(next * kNucleusGrowth, ids_.size());
    }
  }

  /// Drops ids less than p times as probable as the most probable one.
  void keep_min_p(float p) {
    if (p <= 0.0f) return;
    std::erase_if(ids_, [&](int32_t id) { return weight(id) < static_cast<double>(p); });
  }

  /// The id at the share u in [0, 1) of the kept ids' weight.
  int32_t draw(double u) {
    if (!std::is_sorted(ids_.begin(), ids_.end())) std::sort(ids_.begin(), ids_.end());
    const double wanted = u * total_weight();
    double passed = 0;
    int32_t last = ids_.front();
    for (const int32_t id : ids_) {
      const double w = weight(id);
      if (w == 0) continue;
      passed += w;
      last = id;
      if (passed > wanted) break;
    }
    return last;
  }

 private:
  double weight(int32_t id) const {
    const double below = static_cast<double>(logits_[static_cast<size_t>(id)]) - largest_;
    return std::exp(below / temperature_);
  }

  double total_weight() const {
    double sum = 0;
    for (const int32_t id : ids_) sum += weight(id);
    return sum;
  }

  std::span<const float> logits_;
  MoreProbable more_probable_;
  double largest_;
  double temperature_;
  std::vector<int32_t> ids_;
};

void check_range(const char* name, float value, bool inside, const char* range) {
  if (!std::isfinite(value) || !inside) refuse("{} is {}, but must be {}", name, value, range);
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t a = uint64_t{kPhiloxM0} * counter[0];
    const uint64_t b = uint64_t{kPhiloxM1} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + kPhiloxW0, key[1] + kPhiloxW1};
  }
  return counter;
}

double uniform(uint64_t seed, uint64_t counter) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  const auto words = philox4x32({low(counter), high(counter), 0, 0}, {low(seed), high(seed)});
  const uint64_t bits = uint64_t{words[0]} << 32 | words[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
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

SampledId sample_row(std::span<const float> logits, const SampleRow& row) {
  const SamplingParams& params = *row.params;
  LLM_CHECK(row.num_ids > 0 && row.num_ids <= static_cast<int64_t>(logits.size()),
            "{} ids, {} logits", row.num_ids, logits.size());
  if (const SampledId bad = find_fault(logits, row.num_ids); bad.fault != LogitFault::kNone) {
    return bad;
  }
  std::span<const float> allowed = logits.first(static_cast<size_t>(row.num_ids));
  std::vector<float> penalised;
  if (has_penalties(params)) {
    penalised.assign(allowed.begin(), allowed.end());
    apply_penalties(penalised, row);
    allowed = penalised;
  }
  if (params.temperature == 0.0f || params.top_k == 1) return {arg_max(allowed)};

  Candidates candidates(allowed, params.temperature);
  candidates.keep_top_k(params.top_k);
  candidates.keep_top_p(params.top_p);
  candidates.keep_min_p(params.min_p);
  return {candidates.draw(uniform(params.seed, row.num_drawn()))};
}

}  // namespace llm
