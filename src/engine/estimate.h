// A decode step on paper: what it computes and reads, and the least and the likely time for that on
// a GPU. Nothing is loaded and nothing runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "engine/gpu_sheet.h"
#include "model/model_config.h"

namespace llm {

/// One kind of operation, of all layers together.
struct OperationCount {
  std::string name;  // "qkv_proj"
  double flop = 0;   // 2 per multiply-add
  double bytes = 0;
};

/// A whole step as our GPU part does it.
struct StepCount {
  /// Unknown for more than kCudaRowsAtOnce rows.
  std::optional<int64_t> launches;
  double flop = 0;
  double weight_bytes = 0;  // each weight that is read, once; norms too
  double kv_bytes = 0;      // keys and values read and appended, with the scales of 8-bit types

  double bytes() const { return weight_bytes + kv_bytes; }
};

/// Every request has `context` tokens in the cache, the one being computed included.
struct DecodeEstimate {
  int64_t batch = 0;
  int64_t context = 0;
  /// qkv_proj, o_proj, gate_up_proj, down_proj, lm_head: weights, and operands and results of 2
  /// bytes. attention: keys and values that are read, without scales. Norms, the residual stream
  /// and what is appended aren't counted.
  std::vector<OperationCount> operations;
  StepCount step;
  double held_weight_bytes = 0;  // all weights, the whole embedding table included
  double held_kv_bytes = 0;
};

/// BF16 weights. Refuses (exit code 2) a context that the model doesn't hold.
DecodeEstimate estimate_decode(const ModelConfig& config, int64_t batch, int64_t context,
                               DType kv_dtype);

/// The least time by the sheet: the larger of FLOP / peak and bytes / bandwidth.
double limit_seconds(const GpuSheet& gpu, double flop, double bytes);

/// Whether the bytes decide about limit_seconds().
bool limited_by_memory(const GpuSheet& gpu, double flop, double bytes);

/// Bytes over the measured bandwidth (or FLOP over the peak, where that is longer), and the cost of
/// each launch. Nothing where the launches are unknown.
std::optional<double> predicted_seconds(const GpuSheet& gpu, const StepConstants& constants,
                                        const StepCount& step);

}  // namespace llm
