// What the sampling kernels take and give, made from the host's types and turned back into them.
#pragma once

#include <vector>

#include "backend/logprobs.h"
#include "backend/sampling.h"
#include "cuda/kernels.h"

namespace llm {

/// The row for launch_sample() and launch_logprobs(), its penalised ids appended to `penalised`.
/// Where the row's input is an output id, the step's rows are its rows of logits.
DeviceSampleRow device_sample_row(const SampleRow& row, std::vector<IdCount>& penalised);

/// As logprobs_of() (backend/logprobs.h), from what launch_logprobs() left for a row of `width`
/// logits, which differs by at most 2^-22 (2 + log2(width)) + width 2^-39 from its results: the
/// relative error of a sum of weights (sampling_rule.h), where an id's share times its distance
/// from the largest adds up to at most the entropy. That is 4.9e-6 for 151936 ids.
GeneratedLogprobs logprobs_of(const RowLogprobs& row, int32_t chosen, int64_t num_top,
                              int64_t width);

}  // namespace llm
