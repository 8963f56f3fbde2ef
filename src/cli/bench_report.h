// What `llm bench` prints.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cli/run_report.h"
#include "engine/bench.h"

namespace llm {

/// This machine's limits, measured: 0 where it has no such instruction.
struct MachineLimits {
  double read_gbs = 0;
  double f32_gflops = 0;
  double bf16_gflops = 0;
};

/// A bench run and what it ran on.
struct BenchReport {
  std::string model;
  std::string cpu;
  int64_t threads = 0;
  RunInfo info;
  int64_t weight_bytes = 0;
  std::optional<MachineLimits> limits;  // none where nothing is computed
  BenchPlan plan;
  BenchResult result;
  bool computes = true;           // false: the times mean nothing
  std::string draft;              // a model, "ngram", or nothing
  bool has_draft_stages = false;  // a draft model's stages are among the result's
};

/// For a person: speeds with their share of the limits, the stages, and the definitions. The
/// reports, at least one, are of one model on one machine.
std::string bench_table(std::span<const BenchReport> reports);

/// One JSON object, schema 1, numbers that aren't known as null.
std::string bench_json(std::span<const BenchReport> reports);

}  // namespace llm
