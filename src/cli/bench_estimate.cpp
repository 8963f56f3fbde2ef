#include "cli/bench_estimate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <limits>

#include "backend/shape/shape_backend.h"
#include "base/closest.h"
#include "cli/estimate_report.h"
#include "engine/estimate.h"
#include "engine/gpu_sheet.h"
#include "engine/session.h"
#include "io/json.h"

namespace llm {
namespace {

constexpr int64_t kMaxConstantsBytes = 1 << 16;
constexpr double kMaxPeak = 1e6;

/// What goes with --estimate.
constexpr std::array<std::string_view, 15> kKnown = {
    "--estimate", "--gpu",   "--peak-tflops", "--peak-gbs", "--gpu-constants",
    "--context",  "--batch", "--format",      "--model",    "--config",
    "--kv-dtype", "--quiet", "--verbose",     "--help",     "--random-weights"};

bool goes_with_estimate(const CLI::Option& option) {
  const std::vector<std::string>& names = option.get_lnames();
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return std::find(kKnown.begin(), kKnown.end(), "--" + name) != kKnown.end();
  });
}

void take_gpu(EstimateFlags& flags, const std::string& name) {
  if (!find_gpu(name)) {
    const std::vector<std::string> names = gpu_names();
    const auto meant = closest(name, names);
    refuse("--gpu \"{}\"{}, expected {}; for another give --peak-tflops and --peak-gbs",
           printable(name), meant ? fmt::format(": did you mean {}?", *meant) : "",
           fmt::join(names, ", "));
  }
  flags.gpu = name;
}

Gpu chosen_gpu(const EstimateFlags& flags) {
  if (flags.gpu) return find_gpu(*flags.gpu).value();
  if (!flags.peak_tflops || !flags.peak_gbs) {
    refuse("--estimate needs --gpu NAME ({}), or --peak-tflops and --peak-gbs",
           fmt::join(gpu_names(), ", "));
  }
  GpuSheet sheet;
  sheet.description = "a GPU with the given peaks";
  sheet.peak_tflops = *flags.peak_tflops;
  sheet.peak_gbs = *flags.peak_gbs;
  sheet.source = "the command line";
  return {sheet, std::nullopt};
}

/// Refuses a file that must be of another GPU.
StepConstants read_constants(const std::string& path, const GpuSheet& sheet) {
  StepConstants constants = parse_step_constants(read_text_file(path, kMaxConstantsBytes), path);
  if (constants.bandwidth_gbs.value > sheet.peak_gbs) {
    refuse("{}: bandwidth_gbs is {:g}, more than the {:g} GB/s of {}: is it of another GPU?", path,
           constants.bandwidth_gbs.value, sheet.peak_gbs, sheet.description);
  }
  return constants;
}

}  // namespace

void add_estimate_options(CLI::App& app, EstimateFlags& flags) {
  begin_section(app, "On paper");
  CLI::Option* estimate = app.add_flag(
      "--estimate", flags.on,
      "Compute what a decode step of --batch requests costs on a GPU, without running anything: "
      "FLOP, bytes and least time of each operation, and the predicted speed");
  CLI::Option* gpu = app.add_option_function<std::string>(
      "--gpu", [&flags](const std::string& name) { take_gpu(flags, name); },
      "Which GPU, by its vendor's sheet");
  gpu->type_name(fmt::format("{}", fmt::join(gpu_names(), "|")))->needs(estimate);
  const NumberRange peaks = {0, kMaxPeak, true};
  CLI::Option* tflops =
      add_number(app, "--peak-tflops", flags.peak_tflops, peaks, "Another GPU: dense BF16 TFLOP/s");
  CLI::Option* gbs = add_number(app, "--peak-gbs", flags.peak_gbs, peaks,
                                "Another GPU: memory bandwidth in GB/s (10^9 bytes)");
  tflops->needs(estimate)->needs(gbs)->excludes(gpu);
  gbs->needs(estimate)->needs(tflops)->excludes(gpu);
  refuse_empty(add_text(app, "--gpu-constants", flags.constants, "FILE",
                        "CSV with the lines name,value and bandwidth_gbs,X and phase_us,X as "
                        "measured, for the prediction (default: what others measured)"))
      ->needs(estimate);
  add_integer(app, "--context", flags.context, 1, std::numeric_limits<int32_t>::max(),
              fmt::format("Tokens in the cache of each request (default: {})", kTargetContext))
      ->needs(estimate);
}

void exclude_from_estimate(CLI::App& app) {
  CLI::Option* estimate = app.get_option("--estimate");
  for (CLI::Option* option : app.get_options()) {
    if (!goes_with_estimate(*option)) estimate->excludes(option);
  }
}

std::string run_estimate(const EstimateFlags& flags, const CommonOptions& common,
                         const std::vector<int64_t>& batches, const std::string& format) {
  EstimateReport report;
  report.gpu = chosen_gpu(flags);
  if (flags.constants) report.gpu.constants = read_constants(*flags.constants, report.gpu.sheet);
  const DType kv_dtype = common.device.cache_dtype();
  if (kv_dtype == DType::kF32) refuse("--kv-dtype f32: on a GPU it is bf16, fp8 or int8");
  const ModelFiles files = open_model(common.model, Device::kShape, common.log());
  report.model = files.name;
  report.info = info_of(*make_shape_backend(), kv_dtype, 0);
  for (const int64_t batch : batches) {
    report.estimates.push_back(
        estimate_decode(files.config, batch, flags.context.value_or(kTargetContext), kv_dtype));
  }
  return format == "json" ? estimate_json(report) : estimate_table(report);
}

}  // namespace llm
