#include "cli/estimate_report.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "cli/counted.h"
#include "cli/version.h"

namespace llm {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kDefinitions = {
    "Computed, not measured: nothing ran.",
    "Rows: all layers together, 2 FLOP per multiply-add. Bytes are the weights with operands and "
    "results of 2 bytes each; of attention the keys and values that are read.",
    "Limit: the larger of FLOP / peak and bytes / bandwidth, both of the sheet.",
    "Step: the launches of our GPU part with the sampling, and what they ask of memory: each "
    "weight once, norms, keys and values with scales, read and appended. Activations are taken to "
    "stay on chip.",
    "Predicted: bytes / measured bandwidth (or FLOP / peak, if longer) + launches x cost of one.",
};

/// Of one step, in seconds; and the tokens per second of all requests together.
struct Prediction {
  double limit = 0;
  std::optional<double> seconds;
  std::optional<double> target_tok_s;

  std::optional<double> percent_of_limit() const {
    return seconds ? std::optional(100 * limit / *seconds) : std::nullopt;
  }
};

double tok_s(const DecodeEstimate& estimate, double seconds) {
  return static_cast<double>(estimate.batch) / seconds;
}

Prediction predict(const EstimateReport& report, const DecodeEstimate& e) {
  Prediction p;
  p.limit = limit_seconds(report.gpu.sheet, e.step.flop, e.step.bytes());
  if (report.gpu.constants) {
    p.seconds = predicted_seconds(report.gpu.sheet, *report.gpu.constants, e.step);
  }
  if (e.batch == 1 && e.context == kTargetContext && report.info.kv_dtype == "bf16") {
    p.target_tok_s = target_tok_s(report.gpu.sheet.name, report.model);
  }
  return p;
}

/// How far the prediction is above the target, in per cent of it.
std::optional<double> percent_above_target(const DecodeEstimate& estimate, const Prediction& p) {
  if (!p.seconds || !p.target_tok_s) return std::nullopt;
  return 100 * (tok_s(estimate, *p.seconds) / *p.target_tok_s - 1);
}

std::optional<bool> fits(const GpuSheet& gpu, const DecodeEstimate& e) {
  if (gpu.memory_gb <= 0) return std::nullopt;
  return e.held_weight_bytes + e.held_kv_bytes <= gpu.memory_gb * 1e9;
}

double operation_limit(const GpuSheet& gpu, const OperationCount& operation) {
  return limit_seconds(gpu, operation.flop, operation.bytes);
}

double total_limit(const GpuSheet& gpu, const DecodeEstimate& estimate) {
  double seconds = 0;
  for (const OperationCount& o : estimate.operations) seconds += operation_limit(gpu, o);
  return seconds;
}

const char* limited_by(const GpuSheet& gpu, double flop, double bytes) {
  return limited_by_memory(gpu, flop, bytes) ? "memory" : "compute";
}

// ---- For a person ----

std::string operation_lines(const GpuSheet& gpu, const DecodeEstimate& estimate) {
  std::string lines = fmt::format("{:<14}{:>9}{:>8}{:>11}{:>10}  {}\n", "operation", "GFLOP", "GB",
                                  "FLOP/byte", "limit ms", "limited by");
  for (const OperationCount& o : estimate.operations) {
    lines += fmt::format("{:<14}{:>9.1f}{:>8.2f}{:>11.1f}{:>10.2f}  {}\n", o.name, o.flop / 1e9,
                         o.bytes / 1e9, o.flop / o.bytes, operation_limit(gpu, o) * 1e3,
                         limited_by(gpu, o.flop, o.bytes));
  }
  return lines + fmt::format("{:<14}{:>38.2f}\n\n", "total", total_limit(gpu, estimate) * 1e3);
}

std::string speed(const DecodeEstimate& estimate, double seconds) {
  const double rate = tok_s(estimate, seconds);
  return rate < 1000 ? fmt::format("{:.3f} ms = {:.1f} tok/s", seconds * 1e3, rate)
                     : fmt::format("{:.3f} ms = {:.0f} tok/s", seconds * 1e3, rate);
}

const char* star(const SourcedNumber& number) { return number.borrowed ? "*" : ""; }

/// Why there is no number, or the number and how it comes about.
std::string prediction_text(const EstimateReport& report, const DecodeEstimate& e,
                            const Prediction& p) {
  if (!report.gpu.constants) {
    return "unknown: nobody's measurement of this GPU is at hand; --gpu-constants FILE takes yours";
  }
  if (!p.seconds) {
    return "unknown: with so many requests our GPU part reads the weights more than once";
  }
  const StepConstants& c = *report.gpu.constants;
  return fmt::format("{}, {:.1f} % of the limit: {:.3f} GB / {:.0f} GB/s{} + {} x {:g} us{}",
                     speed(e, *p.seconds), *p.percent_of_limit(), e.step.bytes() / 1e9,
                     c.bandwidth_gbs.value, star(c.bandwidth_gbs), *e.step.launches,
                     c.phase_us.value, star(c.phase_us));
}

std::string target_line(const DecodeEstimate& estimate, const Prediction& p) {
  if (!p.target_tok_s) return "";
  const std::optional<double> above = percent_above_target(estimate, p);
  const std::string distance = !above       ? ""
                               : *above < 0 ? fmt::format(", missed by {:.1f} %", -*above)
                                            : fmt::format(", exceeded by {:.1f} %", *above);
  return fmt::format("target        {:g} tok/s{}\n", *p.target_tok_s, distance);
}

std::string memory_line(const GpuSheet& gpu, const DecodeEstimate& e) {
  std::string line = fmt::format("memory        weights {:.2f} GB, cache {:.2f} GB",
                                 e.held_weight_bytes / 1e9, e.held_kv_bytes / 1e9);
  if (const auto fit = fits(gpu, e)) {
    line += fmt::format(" {} {:g} GB", *fit ? "of" : "don't fit into", gpu.memory_gb);
  }
  return line + "\n";
}

std::string step_lines(const EstimateReport& report, const DecodeEstimate& e) {
  const Prediction p = predict(report, e);
  const StepCount& step = e.step;
  std::string lines =
      fmt::format("step          {}{:.3f} GB: weights {:.3f}, keys and values {:.3f}\n",
                  step.launches ? fmt::format("{} launches, ", *step.launches) : std::string(),
                  step.bytes() / 1e9, step.weight_bytes / 1e9, step.kv_bytes / 1e9);
  lines += fmt::format("limit         {}, by {}\n", speed(e, p.limit),
                       limited_by(report.gpu.sheet, step.flop, step.bytes()));
  lines += fmt::format("predicted     {}\n", prediction_text(report, e, p));
  return lines + target_line(e, p) + memory_line(report.gpu.sheet, e) + "\n";
}

std::string header(const EstimateReport& report) {
  const GpuSheet& gpu = report.gpu.sheet;
  std::string lines =
      fmt::format("model         {}, weights bf16, KV {}\n", report.model, report.info.kv_dtype);
  lines += fmt::format("GPU           {}: BF16 {:g} TFLOP/s, {:g} GB/s\n", gpu.description,
                       gpu.peak_tflops, gpu.peak_gbs);
  return lines + fmt::format("sheet         {}\n\n", gpu.source);
}

std::string source_lines(const Gpu& gpu) {
  if (!gpu.constants) return "";
  const auto line = [](const std::string& what, const SourcedNumber& number) {
    return fmt::format("{}{}: {}\n", star(number), what, number.source);
  };
  const StepConstants& c = *gpu.constants;
  return line(fmt::format("{:.0f} GB/s", c.bandwidth_gbs.value), c.bandwidth_gbs) +
         line(fmt::format("{:g} us", c.phase_us.value), c.phase_us);
}

// ---- JSON ----

Json number(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

Json constant_json(const std::optional<StepConstants>& constants,
                   SourcedNumber StepConstants::*field) {
  if (!constants) return nullptr;
  const SourcedNumber& number = (*constants).*field;
  return {{"value", number.value}, {"source", number.source}, {"borrowed", number.borrowed}};
}

Json gpu_json(const Gpu& gpu) {
  const GpuSheet& sheet = gpu.sheet;
  return {{"name", sheet.name.empty() ? Json(nullptr) : Json(sheet.name)},
          {"description", sheet.description},
          {"peak_tflops", sheet.peak_tflops},
          {"peak_gbs", sheet.peak_gbs},
          {"memory_gb", sheet.memory_gb > 0 ? Json(sheet.memory_gb) : Json(nullptr)},
          {"source", sheet.source},
          {"bandwidth_gbs", constant_json(gpu.constants, &StepConstants::bandwidth_gbs)},
          {"phase_us", constant_json(gpu.constants, &StepConstants::phase_us)}};
}

Json operations_json(const GpuSheet& gpu, const DecodeEstimate& estimate) {
  Json rows = Json::array();
  for (const OperationCount& o : estimate.operations) {
    rows.push_back({{"phase", "decode"},
                    {"name", o.name},
                    {"flop", o.flop},
                    {"bytes", o.bytes},
                    {"flop_per_byte", o.flop / o.bytes},
                    {"limit_ms", operation_limit(gpu, o) * 1e3},
                    {"limited_by", limited_by(gpu, o.flop, o.bytes)}});
  }
  return rows;
}

Json step_json(const EstimateReport& report, const DecodeEstimate& e) {
  const Prediction p = predict(report, e);
  const auto rate = [&](double seconds) { return tok_s(e, seconds); };
  return {{"launches", e.step.launches ? Json(*e.step.launches) : Json(nullptr)},
          {"flop", e.step.flop},
          {"weight_bytes", e.step.weight_bytes},
          {"kv_bytes", e.step.kv_bytes},
          {"bytes", e.step.bytes()},
          {"limit_ms", p.limit * 1e3},
          {"limit_tok_s", rate(p.limit)},
          {"limited_by", limited_by(report.gpu.sheet, e.step.flop, e.step.bytes())},
          {"predicted_ms", p.seconds ? Json(*p.seconds * 1e3) : Json(nullptr)},
          {"predicted_tok_s", p.seconds ? Json(rate(*p.seconds)) : Json(nullptr)},
          {"limit_percent", number(p.percent_of_limit())},
          {"target_tok_s", number(p.target_tok_s)},
          {"above_target_percent", number(percent_above_target(e, p))}};
}

Json estimate_object(const EstimateReport& report, const DecodeEstimate& e) {
  const GpuSheet& gpu = report.gpu.sheet;
  const std::optional<bool> fit = fits(gpu, e);
  return {{"batch", e.batch},
          {"context", e.context},
          {"stages", operations_json(gpu, e)},
          {"total_limit_ms", total_limit(gpu, e) * 1e3},
          {"step", step_json(report, e)},
          {"held_weight_bytes", e.held_weight_bytes},
          {"held_kv_bytes", e.held_kv_bytes},
          {"fits", fit ? Json(*fit) : Json(nullptr)}};
}

}  // namespace

std::string estimate_table(const EstimateReport& report) {
  std::string text = header(report);
  for (const DecodeEstimate& e : report.estimates) {
    text += fmt::format("decode, {} of {}{}\n", counted(e.batch, "request"),
                        counted(e.context, "token"), e.batch == 1 ? "" : " each");
    text += operation_lines(report.gpu.sheet, e) + step_lines(report, e);
  }
  text += source_lines(report.gpu);
  return text + fmt::format("{}\n", fmt::join(kDefinitions, "\n"));
}

std::string estimate_json(const EstimateReport& report) {
  Json estimates = Json::array();
  for (const DecodeEstimate& e : report.estimates) estimates.push_back(estimate_object(report, e));
  const Json object = {
      {"schema", 1},
      {"gpu", gpu_json(report.gpu)},
      {"build", {{"version", version_number()}, {"compiler", compiler_name()}}},
      {"config",
       {{"model", report.model}, {"weights", "bf16"}, {"kv_dtype", report.info.kv_dtype}}},
      {"definitions", fmt::format("{}", fmt::join(kDefinitions, " "))},
      {"estimates", std::move(estimates)},
      {"run", Json::parse(run_info_json(report.info))}};
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace llm
