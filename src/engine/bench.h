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
  int64_t warmup = 1;         // repetitions that don't count
  uint64_t seed = 0;          // of the random prompts
  bool shared_depth = false;  // the prompts begin with the same `depth` tokens, which the prefix
                              // cache has after the first; else they are computed before the clock

  int64_t context() const { return depth + prompt_len + gen_len; }
};

/// One repetition, in seconds.
struct BenchRep {
  double prefill = 0;        // from the requests (depth in the cache) to the last prompt's end
  std::vector<double> ttft;  // of each request: the same, up to its first id out
  std::vector<double> tpot;  // of each: (end - first id) / (ids - 1)
  std::optional<double> decode_step;  // mean, of the steps in which all requests decode
  double ids_per_decode_step = 0;     // mean over the same, of all requests together
  int64_t num_ids = 0;                // of all requests
  int64_t num_proposed = 0;           // guesses that were verified for them
  int64_t num_accepted = 0;           // and right
};

struct BenchResult {
  std::vector<BenchRep> reps;
  std::vector<StageTotal> stages;   // of one more repetition, under observation
  int64_t num_decode_steps = 0;     // in that repetition
  double observed_decode_step = 0;  // its mean, in seconds; 0 without one
  int64_t kv_bytes = 0;             // the cache for depth, prompt and answer
  int64_t peak_bytes = 0;           // of the process, most resident memory so far
};

/// Runs warm-up, repetitions and the observed one on an engine that has nothing else to do. Prompts
/// are of ids below num_ids. `on_rep` is told how many are done.
BenchResult run_bench(Engine& engine, Backend& backend, const BenchPlan& plan, int64_t num_ids,
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
