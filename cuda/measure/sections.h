// The measurements, in the order in which they tell most: what the memory and a launch cost, whole
// steps, then the parts.
#pragma once

#include "cuda/measure/lab.h"

namespace llm::measure {

/// What copies and reads reach, and what a launch that waits for the one before it costs.
void measure_ceilings(Lab& lab);
/// Whole decode steps of one request, and the fit microseconds = bytes / bandwidth + launches *
/// phase, which goes into STEM_constants.csv beside the result, for `llm bench --gpu-constants`.
void measure_step(Lab& lab);
/// Every product of Qwen3, few rows: ours and cuBLASLt's.
void measure_gemv(Lab& lab);
/// Decode attention: contexts, batches, types of the cache.
void measure_attention(Lab& lab);
/// Many rows: a step of 64 requests, prompts' products and attention, the head, the sampling.
void measure_many(Lab& lab);
/// What comes before the first token: copies from pinned memory, recording a graph.
void measure_load(Lab& lab);

}  // namespace llm::measure
