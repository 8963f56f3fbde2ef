#include "engine/gpu_sheet.h"

#include <array>
#include <charconv>
#include <cmath>
#include <sstream>

#include "base/closest.h"
#include "base/error.h"
#include "io/json.h"

namespace llm {
namespace {

// ---- Sheets: "sparse" is what the sheet prints where it counts zeros that are skipped ----

// clang-format off
//                             name       description                TFLOP/s  GB/s  GB   source
constexpr GpuSheet kH100    = {"h100",    "NVIDIA H100 SXM",         989,     3350, 80,  "NVIDIA H100 data sheet (1,979 TFLOP/s sparse, halved)"};
constexpr GpuSheet kH200    = {"h200",    "NVIDIA H200 SXM",         989,     4800, 141, "NVIDIA H200 data sheet (1,979 TFLOP/s sparse, halved)"};
constexpr GpuSheet kA100    = {"a100",    "NVIDIA A100 SXM 80 GB",   312,     2039, 80,  "NVIDIA A100 data sheet"};
constexpr GpuSheet kL40s    = {"l40s",    "NVIDIA L40S",             362,     864,  48,  "NVIDIA L40S data sheet (733 TFLOP/s sparse, 362.05 dense)"};
constexpr GpuSheet kRtx4090 = {"rtx4090", "NVIDIA GeForce RTX 4090", 165.2,   1008, 24,  "NVIDIA Ada GPU architecture whitepaper (BF16, FP32 sums, dense)"};
constexpr GpuSheet kB200    = {"b200",    "NVIDIA B200 (HGX)",       2250,    8000, 180, "NVIDIA DGX B200 data sheet (8 GPUs: 36 PFLOP/s sparse, 64 TB/s, 1,440 GB)"};
// clang-format on

// ---- Constants of a step. A fit is (time of a step - bytes / bandwidth) / launches. ----

constexpr const char* kGraphStudy =
    "github.com/msaroufim/megakernels-vs-cuda-graphs, llama/docs/RESULTS.md: Llama-3.2-1B, 2.47 GB "
    "in 100 launches of a CUDA graph";

StepConstants h200_constants() {
  return {{4300, "a copy measured on an H200"},
          {2.2, fmt::format("fit to {}, 794.7 us on an H200", kGraphStudy)}};
}

StepConstants h100_constants() {
  return {{3090, "github.com/RightNow-AI/AutoMegaKernel, DATACENTER_RESULTS.md"},
          {1.8, fmt::format("fit to {}, 979.5 us on an H100", kGraphStudy)}};
}

StepConstants rtx4090_constants() {
  return {{955, "github.com/zeux/calm, README: what cuBLAS reaches on an RTX 4090"},
          {1.8,
           "borrowed from an RTX 5090: fit to github.com/AlpinDale/qwen_megakernel, README: "
           "Qwen3-0.6B in 965 us, 712 us of them for the bytes, 142 phases",
           true}};
}

/// Nobody's measurement of an A100 is at hand.
StepConstants a100_constants() {
  const StepConstants h200 = h200_constants();
  return {
      {kA100.peak_gbs * h200.bandwidth_gbs.value / kH200.peak_gbs,
       "borrowed from an H200: the same share of the sheet's bandwidth, 4300 of 4800 GB/s", true},
      {h200.phase_us.value,
       "borrowed from an H200, whose launches overlap as an A100's can't: " + h200.phase_us.source,
       true}};
}

std::vector<Gpu> all_gpus() {
  return {{kH100, h100_constants()}, {kH200, h200_constants()},       {kA100, a100_constants()},
          {kL40s, std::nullopt},     {kRtx4090, rtx4090_constants()}, {kB200, std::nullopt}};
}

// ---- Targets ----

struct Target {
  std::string_view gpu;
  std::string_view model;
  double tok_s;
};

constexpr std::array<Target, 6> kTargets = {{{"h200", "qwen3-0.6b", 1700},
                                             {"h200", "qwen3-4b", 440},
                                             {"h200", "qwen3-8b", 255},
                                             {"h200", "qwen3-32b", 64},
                                             {"h100", "qwen3-0.6b", 1470},
                                             {"h100", "qwen3-8b", 190}}};

// ---- CSV ----

constexpr std::string_view kHeader = "name,value";

struct ConstantRow {
  std::string_view name;
  double max;
  SourcedNumber StepConstants::*field;
};
constexpr std::array<ConstantRow, 2> kRows = {
    {{"bandwidth_gbs", 1e6, &StepConstants::bandwidth_gbs},
     {"phase_us", 1e6, &StepConstants::phase_us}}};

/// The row of this name; refuses others.
const ConstantRow& row_of(std::string_view name, const std::string& place) {
  std::vector<std::string> names;
  for (const ConstantRow& row : kRows) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
  }
  const auto meant = closest(name, names);
  refuse("{}: unknown name \"{}\"{}, expected bandwidth_gbs or phase_us", place, printable(name),
         meant ? fmt::format(" (did you mean {}?)", *meant) : "");
}

double parse_value(std::string_view text, const ConstantRow& row, const std::string& place) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || !std::isfinite(value) || value <= 0 || value > row.max) {
    refuse("{}: {} is \"{}\", expected a number above 0 and up to {}", place, row.name,
           printable(text), row.max);
  }
  return value;
}

}  // namespace

std::optional<Gpu> find_gpu(std::string_view name) {
  for (Gpu& gpu : all_gpus()) {
    if (gpu.sheet.name == name) return std::move(gpu);
  }
  return std::nullopt;
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const Gpu& gpu : all_gpus()) names.emplace_back(gpu.sheet.name);
  return names;
}

StepConstants parse_step_constants(std::string_view text, const std::string& origin) {
  StepConstants constants;
  bool has_header = false;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line.starts_with('#')) continue;
    const std::string place = fmt::format("{}:{}", origin, number);
    if (!has_header) {
      if (line != kHeader) {
        refuse("{}: expected the line \"{}\" first, not \"{}\"", place, kHeader, printable(line));
      }
      has_header = true;
      continue;
    }
    const size_t comma = line.find(',');
    if (comma == std::string::npos) {
      refuse("{}: expected \"{}\", not \"{}\"", place, kHeader, printable(line));
    }
    const ConstantRow& row = row_of(std::string_view(line).substr(0, comma), place);
    SourcedNumber& number_of = constants.*row.field;
    if (!number_of.source.empty()) refuse("{}: {} is there twice", place, row.name);
    number_of = {parse_value(std::string_view(line).substr(comma + 1), row, place), origin};
  }
  for (const ConstantRow& row : kRows) {
    if ((constants.*row.field).source.empty()) refuse("{}: there is no {}", origin, row.name);
  }
  return constants;
}

std::optional<double> target_tok_s(std::string_view gpu, std::string_view model) {
  for (const Target& target : kTargets) {
    if (target.gpu == gpu && target.model == model) return target.tok_s;
  }
  return std::nullopt;
}

}  // namespace llm
