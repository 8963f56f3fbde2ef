// Probabilities of the next token, from one row of raw logits: before penalties and temperature.
//
// The sum runs over the whole row, as in transformers and vLLM: ids that no token has (an embedding
// is often padded) take part in it, although they are never generated.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace llm {

struct TokenLogprob {
  int32_t id = 0;
  double logprob = 0;  // natural logarithm; minus infinity where the logit is
};

/// Of one generated token.
struct GeneratedLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top = {};  // the most probable first, the lower id on a tie
};

/// log(sum(exp(logits))), computed in double and without overflow. The logits are as
/// check_logits() (sampling.h) wants them.
double log_sum_exp(std::span<const float> logits);

/// The log-softmax of the logits at id, and at the num_top most probable ids, or all if there are
/// fewer.
GeneratedLogprobs logprobs_of(std::span<const float> logits, int32_t id, int64_t num_top);

}  // namespace llm
