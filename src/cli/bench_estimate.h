// `llm bench --estimate`: a decode step on paper.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"

namespace CLI {
class App;
}

namespace llm {

struct EstimateFlags {
  bool on = false;
  std::optional<std::string> gpu;
  std::optional<double> peak_tflops, peak_gbs;
  std::optional<std::string> constants;  // a CSV file
  std::optional<int64_t> context;
};

/// --estimate, --gpu, --peak-tflops, --peak-gbs, --gpu-constants and --context.
void add_estimate_options(CLI::App& app, EstimateFlags& flags);

/// Lets --estimate exclude the options of a run, which are all that it doesn't know. Call when the
/// app has all its options.
void exclude_from_estimate(CLI::App& app);

/// The report as `format` ("table" or "json") asks for it, one step for each number of requests.
std::string run_estimate(const EstimateFlags& flags, const CommonOptions& common,
                         const std::vector<int64_t>& batches, const std::string& format);

}  // namespace llm
