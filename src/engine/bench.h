// Measures prefill and decode of a loaded model with random prompts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "engine/session.h"
#include "engine/stage_times.h"

namespace llm {

struct BenchPlan {
  int64_t prompt_len = 512;
  int64_t gen_len = 128;  // ids generated; none of them ends the run early
  int64_t depth = 0;      // tokens in the cache before the timed prompt
  int64_t batch = 1;      // requests that arrive at once
  int64_t reps = 5;
  int64_t warmup = 1;  // repetitions that don't count
  uint64_t seed = 0;   // of the random prompts

  int64_t context() const { return depth + prompt_len + gen_len; }
};

/// One repetition, in seconds.
struct BenchRep {
  double prefill = 0;        // from the requests (depth in the cache) to the last prompt's end
  std::vector<double> ttft;  // of each request: the same, up to its first id out
  std::vector<double> tpot;  // of each: (end - first id) / (ids - 1)
  std::optional<double> decode_step;  // mean, of the steps in which all requests decode
};

struct BenchResult {
  std::vector<BenchRep> reps;
  std::vector<StageTotal> stages;  // of one more repetition, under observation
  int64_t num_decode_steps = 0;    // in that repetition
  int64_t kv_bytes = 0;            // the cache for depth, prompt and answer
  int64_t peak_bytes = 0;          // of the process, most resident memory so far
};

/// Runs warm-up, repetitions and the observed one. `on_rep` is told how many are done.
BenchResult run_bench(LoadedModel& model, const BenchPlan& plan, DType kv_dtype, int64_t num_ids,
                      const std::function<void(int64_t done, int64_t all)>& on_rep);

/// Mean, median and 99th percentile (nearest rank); the values must not be empty.
struct Summary {
  double mean = 0;
  double median = 0;
  double p99 = 0;
};
Summary summarize(std::vector<double> values);

/// Most resident memory of this process so far, in bytes; 0 where the system doesn't say.
int64_t peak_memory();

}  // namespace llm
