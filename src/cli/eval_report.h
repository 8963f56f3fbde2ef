// What `llm eval` prints: a table for a person, or JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/run_report.h"
#include "engine/text_scores.h"

namespace llm {

struct EvalReport {
  std::string model;
  std::optional<std::string> baseline = {};
  int64_t text_tokens = 0;
  int64_t ctx = 0;
  int64_t stride = 0;
  int64_t num_windows = 0;
  EvalSummary summary = {};
  RunInfo info = {};  // of the model
};

std::string eval_table(const EvalReport& report);

/// One line: {"tokens", "nll" (mean per token), "ppl", "ppl_se", "nll_excess"
/// (over the baseline's), "nll_excess_se", "kl_mean", "kl_p99", "top1" (a
/// share), "baseline", "ctx", "stride", "windows", "run"}. What isn't known or not finite is null.
std::string eval_json(const EvalReport& report);

}  // namespace llm
