// Choosing the next token from logits.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/sampled_id.h"
#include "backend/sampling_rule.h"
#include "base/tensor.h"

namespace llm {

/// Applied in this order: penalties, temperature, top-k, top-p, min-p, renormalise, draw.
struct SamplingParams {
  float temperature = 0.0f;         // 0 = arg-max, the lowest id on a tie
  int64_t top_k = 0;                // keep the k most probable; 0 = off
  float top_p = 1.0f;               // keep the fewest that reach this probability
  float min_p = 0.0f;               // drop those below min_p times the most probable
  float repetition_penalty = 1.0f;  // over prompt and output: > 0 divided by it, < 0 multiplied
  float presence_penalty = 0.0f;    // over output: subtracted once per distinct id
  float frequency_penalty = 0.0f;   // over output: subtracted once per occurrence
  uint64_t seed = 0;
};

/// Refuses (exit code 2) a parameter out of its range, NaN included, naming it and the range.
void validate(const SamplingParams& params);

/// What one row of logits needs besides its numbers.
struct SampleRow {
  const SamplingParams* params = nullptr;
  std::span<const int32_t> prompt_ids;
  std::span<const int32_t> output_ids;  // generated so far; its length counts the draws
  int64_t num_ids = 0;     // ids below this may be drawn; the rest is padding of the embedding
  int64_t logits_row = 0;  // where in the step's logits its numbers are
  /// The row's own input is one more output id, which output_ids lacks: it was known to the device
  /// alone when the step was asked for.
  bool input_is_output = false;
  /// Wanted with the id: its probability and that of so many of the most probable ones.
  std::optional<int64_t> num_logprobs = {};

  /// Draws before this one.
  uint64_t num_drawn() const { return output_ids.size() + (input_is_output ? 1 : 0); }
};

/// The chosen id. Throws Error (exit code 1) naming the fault.
int32_t id_of(const SampledId& sampled);

/// Throws Error as id_of() when raw logits have a fault.
void check_logits(std::span<const float> logits, int64_t num_ids);

/// Largest of the values; minus infinity if there are none.
float largest_of(std::span<const float> values);

// What the parameters of a row come to in the arithmetic of a draw (sampling_rule.h).
bool is_greedy(const SamplingParams& params);
bool has_penalties(const SamplingParams& params);
DrawRule draw_rule(const SamplingParams& params);
Penalties penalties_of(const SamplingParams& params);
/// Every id that the row's penalties change, once, in any order.
std::vector<IdCount> penalised_ids(const SampleRow& row);

/// The next id for one row of raw logits. The draw depends only on the logits, the parameters and
/// (seed, number of output ids).
SampledId sample_row(std::span<const float> logits, const SampleRow& row);

/// Uniform in [0, 1) from a counter-based generator (Philox 4x32-10; Salmon et al., SC 2011): a
/// pure function, the same on every machine.
double uniform(uint64_t seed, uint64_t counter);

/// One block of that generator: four random words for a counter and a key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

}  // namespace llm
