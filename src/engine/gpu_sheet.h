// What is known of GPUs without having one: the vendor's sheet, and constants of a decode step that
// others measured. Every number has its source beside it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

/// Physical limits as the vendor's data sheet states them.
struct GpuSheet {
  std::string_view name;         // as --gpu takes it: "h200"
  std::string_view description;  // "NVIDIA H200 SXM"
  double peak_tflops = 0;        // BF16 with float32 sums, dense
  double peak_gbs = 0;           // memory bandwidth, 1e9 bytes per second
  double memory_gb = 0;          // 1e9 bytes; 0: unknown
  std::string_view source;
};

/// A number with what it rests on.
struct SourcedNumber {
  double value = 0;
  std::string source;
  bool borrowed = false;  // measured on another GPU than the one it is used for
};

/// What a decode step costs beside its bytes: seconds = bytes / bandwidth + launches * phase.
struct StepConstants {
  SourcedNumber bandwidth_gbs;  // what reads of this size reach
  SourcedNumber phase_us;       // of one launch that waits for the one before it
};

struct Gpu {
  GpuSheet sheet;
  std::optional<StepConstants> constants;  // none where no measurement is known
};

/// The GPU of this name, or nothing.
std::optional<Gpu> find_gpu(std::string_view name);

/// Names that find_gpu() knows.
std::vector<std::string> gpu_names();

/// Constants measured elsewhere, as CSV: a line "name,value", then one line each for bandwidth_gbs
/// and phase_us; empty lines and lines from # on don't count. Refuses (exit code 2) anything else,
/// naming `origin` and the line.
StepConstants parse_step_constants(std::string_view text, const std::string& origin);

/// Tokens per second of one request at kTargetContext tokens with BF16 weights that were aimed at
/// before the kernels were written, with a launch taken at 2.0 us (H200) or 1.8 us (H100); by the
/// names of find_gpu() and named_model_config().
std::optional<double> target_tok_s(std::string_view gpu, std::string_view model);
inline constexpr int kTargetContext = 1024;

}  // namespace llm
