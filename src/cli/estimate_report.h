// What `llm bench --estimate` prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/run_report.h"
#include "engine/estimate.h"
#include "engine/gpu_sheet.h"

namespace llm {

/// Decode steps of one model on one GPU, on paper.
struct EstimateReport {
  std::string model;
  Gpu gpu;
  RunInfo info;
  std::vector<DecodeEstimate> estimates;
};

/// For a person: operations with their limits, and the step as a whole.
std::string estimate_table(const EstimateReport& report);

/// One JSON object, schema 1, numbers that aren't known as null.
std::string estimate_json(const EstimateReport& report);

}  // namespace llm
