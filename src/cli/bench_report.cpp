#include "cli/bench_report.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/counted.h"
#include "cli/version.h"

namespace llm {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDefinitions[] = {
    "Prompts are random ids: what guessing saves on their answers says little about texts.",
    "TTFT: request accepted to first token out, with `depth` tokens in the cache already.",
    "TPOT: (end - first token) / (output tokens - 1).",
    "Prefill tok/s: all prompt tokens / time until the last prompt's end.",
    "Decode tok/s: tokens out / time of the steps in which all requests decode.",
    "Stages: of one more repetition; prefill of all its steps, decode the mean of one.",
    "With a draft model the stages are those of both, and decode the mean of one pass of either.",
    "Between stages: the rest of a decode step, which is the scheduler and its bookkeeping.",
};
constexpr const char* kLimitDefinitions[] = {
    "Bandwidth: weights and cache read per decode step / its time, of the measured bandwidth.",
    "Peak: FLOP of the prefill / its time, of the measured multiply peak of the type in use.",
    "Limit: the larger of FLOP / peak and bytes / bandwidth; what is in the cache can beat it.",
};
constexpr const char* kGpuDefinitions[] = {
    "Stages of a GPU are timed with the host waiting after each: together longer than a step.",
    "A GPU's limits aren't measured here: llm bench --estimate --gpu NAME computes them.",
};

/// Of all requests of all repetitions.
std::vector<double> collect(const BenchReport& report, std::vector<double> BenchRep::*field) {
  std::vector<double> values;
  if (!report.computes) return values;
  for (const BenchRep& rep : report.result.reps) {
    values.insert(values.end(), (rep.*field).begin(), (rep.*field).end());
  }
  return values;
}

std::optional<double> mean(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(summarize(values).mean);
}

std::optional<double> mean_prefill(const BenchReport& report) {
  std::vector<double> values;
  for (const BenchRep& rep : report.result.reps) values.push_back(rep.prefill);
  return report.computes ? mean(values) : std::nullopt;
}

/// Of a step in which all requests decode.
std::optional<double> mean_decode_step(const BenchReport& report) {
  std::vector<double> values;
  for (const BenchRep& rep : report.result.reps) {
    if (report.computes && rep.decode_step) values.push_back(*rep.decode_step);
  }
  return mean(values);
}

/// Ids out of such a step, over all requests; 1 each without speculation.
std::optional<double> mean_decode_ids(const BenchReport& report) {
  std::vector<double> values;
  for (const BenchRep& rep : report.result.reps) {
    if (report.computes && rep.decode_step) values.push_back(rep.ids_per_decode_step);
  }
  return mean(values);
}

/// Rates from times: unknown stays unknown, and so does a time too short to divide by.
std::optional<double> rate(double amount, std::optional<double> seconds) {
  if (!seconds || *seconds <= 0) return std::nullopt;
  return amount / *seconds;
}

std::optional<double> decode_rate(const BenchReport& report) {
  return rate(mean_decode_ids(report).value_or(0), mean_decode_step(report));
}

double multiply_peak(const BenchReport& report) {
  const MachineLimits& limits = *report.limits;
  const bool bf16 = report.info.act == "bf16" && limits.bf16_gflops > 0;
  return bf16 ? limits.bf16_gflops : limits.f32_gflops;
}

struct PhaseSum {
  double flop = 0;
  double stream_bytes = 0;
};

PhaseSum sum_of(const BenchReport& report, bool decode) {
  PhaseSum sum;
  for (const StageTotal& stage : report.result.stages) {
    if (stage.decode != decode) continue;
    sum.flop += stage.flop;
    sum.stream_bytes += stage.stream_bytes;
  }
  return sum;
}

/// GB/s of weights and cache in decode.
std::optional<double> decode_gbs(const BenchReport& report) {
  const int64_t steps = report.result.num_decode_steps;
  if (steps == 0) return std::nullopt;
  const double per_step = sum_of(report, true).stream_bytes / static_cast<double>(steps);
  return rate(per_step / 1e9, mean_decode_step(report));
}

/// Seconds of a decode step in which no operation runs: the scheduler, the bookkeeping of sequences
/// and blocks, and the making of the batch. Unknown with a draft model, whose operations count too.
std::optional<double> step_overhead(const BenchReport& report) {
  const BenchResult& result = report.result;
  if (!report.computes || report.has_draft_stages || result.num_decode_steps == 0 ||
      result.observed_decode_step <= 0) {
    return std::nullopt;
  }
  double seconds = 0;
  for (const StageTotal& stage : result.stages) seconds += stage.decode ? stage.seconds : 0;
  return result.observed_decode_step - seconds / static_cast<double>(result.num_decode_steps);
}

std::optional<double> overhead_percent(const BenchReport& report) {
  const std::optional<double> seconds = step_overhead(report);
  return seconds ? std::optional(100 * *seconds / report.result.observed_decode_step)
                 : std::nullopt;
}

std::optional<double> prefill_gflops(const BenchReport& report) {
  return rate(sum_of(report, false).flop / 1e9, mean_prefill(report));
}

std::optional<double> percent_of(std::optional<double> value, double limit) {
  if (!value || limit <= 0) return std::nullopt;
  return 100 * *value / limit;
}

/// The least time in which the machine could do it.
std::optional<double> limit_seconds(const BenchReport& report, double flop, double bytes) {
  if (!report.limits || report.limits->read_gbs <= 0 || multiply_peak(report) <= 0) {
    return std::nullopt;
  }
  return std::max(flop / (multiply_peak(report) * 1e9), bytes / (report.limits->read_gbs * 1e9));
}

Json number(std::optional<double> value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json milliseconds(const std::vector<double>& seconds) {
  if (seconds.empty()) return {{"mean", nullptr}, {"median", nullptr}, {"p99", nullptr}};
  const Summary s = summarize(seconds);
  return {{"mean", s.mean * 1e3}, {"median", s.median * 1e3}, {"p99", s.p99 * 1e3}};
}

/// A stage as reported: of the whole prefill, or of the mean decode step.
StageTotal per_step(const BenchReport& report, StageTotal stage) {
  if (!stage.decode) return stage;
  const double steps = static_cast<double>(report.result.num_decode_steps);
  stage.flop /= steps;
  stage.bytes /= steps;
  stage.stream_bytes /= steps;
  stage.seconds /= steps;
  return stage;
}

Json stages_json(const BenchReport& report) {
  Json stages = Json::array();
  for (const StageTotal& total : report.result.stages) {
    const StageTotal stage = per_step(report, total);
    const std::optional<double> limit = limit_seconds(report, stage.flop, stage.bytes);
    stages.push_back({{"phase", stage.decode ? "decode" : "prefill"},
                      {"name", stage.name},
                      {"flop", stage.flop},
                      {"bytes", stage.bytes},
                      {"limit_ms", limit ? number(*limit * 1e3) : Json(nullptr)},
                      {"time_ms", report.computes ? Json(stage.seconds * 1e3) : Json(nullptr)}});
  }
  return stages;
}

struct Guesses {
  int64_t num_ids = 0;
  int64_t num_proposed = 0;
  int64_t num_accepted = 0;
};

Guesses guesses_of(const BenchReport& report) {
  Guesses sum;
  for (const BenchRep& rep : report.result.reps) {
    sum.num_ids += rep.num_ids;
    sum.num_proposed += rep.num_proposed;
    sum.num_accepted += rep.num_accepted;
  }
  return sum;
}

Json run_json(const BenchReport& report) {
  const MachineLimits limits = report.limits.value_or(MachineLimits{});
  const double peak = report.limits ? multiply_peak(report) : 0;
  const double batch = static_cast<double>(report.plan.batch);
  return {{"batch", report.plan.batch},
          {"prompt_len", report.plan.prompt_len},
          {"gen_len", report.plan.gen_len},
          {"depth", report.plan.depth},
          {"ttft_ms", milliseconds(collect(report, &BenchRep::ttft))},
          {"tpot_ms", milliseconds(collect(report, &BenchRep::tpot))},
          {"prefill_tok_s",
           number(rate(batch * static_cast<double>(report.plan.prompt_len), mean_prefill(report)))},
          {"decode_tok_s", number(decode_rate(report))},
          {"peak_bytes", report.result.peak_bytes},
          {"kv_bytes", report.result.kv_bytes},
          {"weight_bytes", report.weight_bytes},
          {"decode_gbs", number(decode_gbs(report))},
          {"decode_bandwidth_percent", number(percent_of(decode_gbs(report), limits.read_gbs))},
          {"step_overhead_percent", number(overhead_percent(report))},
          {"prefill_gflops", number(prefill_gflops(report))},
          {"prefill_peak_percent", number(percent_of(prefill_gflops(report), peak))},
          {"num_proposed", guesses_of(report).num_proposed},
          {"num_accepted", guesses_of(report).num_accepted},
          {"stages", stages_json(report)}};
}

std::string cell(std::optional<double> value, const char* unit) {
  return value ? fmt::format("{:.2f} {}", *value, unit) : std::string("-");
}

std::string times_line(const char* name, const std::vector<double>& seconds) {
  if (seconds.empty()) return fmt::format("{:<16}-\n", name);
  const Summary s = summarize(seconds);
  return fmt::format("{:<16}mean {:.2f}  median {:.2f}  p99 {:.2f} ms\n", name, s.mean * 1e3,
                     s.median * 1e3, s.p99 * 1e3);
}

std::string speed_line(const char* name, std::optional<double> tok_s,
                       std::optional<double> achieved, const char* unit,
                       std::optional<double> percent, const char* limit) {
  std::string line = fmt::format("{:<16}{}", name, cell(tok_s, "tok/s"));
  if (achieved) line += fmt::format("   {:.1f} {}", *achieved, unit);
  if (percent) line += fmt::format(" = {:.1f} % of {}", *percent, limit);
  return line + "\n";
}

std::string machine_lines(const BenchReport& report) {
  const std::string& hardware = report.info.hardware;
  std::string lines = fmt::format("machine         {}, {}, {} ({}), act {}, KV {}\n",
                                  hardware.empty() ? report.cpu : hardware + ", " + report.cpu,
                                  counted(report.threads, "thread"), report.info.device,
                                  report.info.isa, report.info.act, report.info.kv_dtype);
  if (report.limits) {
    const MachineLimits& limits = *report.limits;
    lines += fmt::format("measured        read {}, F32 multiply {:.0f} GFLOP/s",
                         limits.read_gbs > 0 ? fmt::format("{:.1f} GB/s", limits.read_gbs)
                                             : "unknown (too little memory)",
                         limits.f32_gflops);
    if (limits.bf16_gflops > 0) lines += fmt::format(", BF16 {:.0f} GFLOP/s", limits.bf16_gflops);
    lines += "\n";
  }
  return lines;
}

std::string speculation_line(const BenchReport& report) {
  const Guesses sum = guesses_of(report);
  if (sum.num_proposed == 0) return "";
  return fmt::format("{:<16}{}", "speculation",
                     speculation_stats(sum.num_ids, sum.num_proposed, sum.num_accepted));
}

std::string stage_lines(const BenchReport& report) {
  std::string lines = fmt::format("\n{:<8} {:<24} {:>10} {:>10} {:>10} {:>10}\n", "phase", "stage",
                                  "GFLOP", "MB", "limit ms", "time ms");
  for (const StageTotal& total : report.result.stages) {
    const StageTotal stage = per_step(report, total);
    const std::optional<double> limit = limit_seconds(report, stage.flop, stage.bytes);
    lines += fmt::format("{:<8} {:<24} {:>10.3f} {:>10.2f} {:>10} {:>10}\n",
                         stage.decode ? "decode" : "prefill", stage.name, stage.flop / 1e9,
                         stage.bytes / 1e6, limit ? fmt::format("{:.3f}", *limit * 1e3) : "-",
                         report.computes ? fmt::format("{:.3f}", stage.seconds * 1e3) : "-");
  }
  return lines;
}

std::string run_lines(const BenchReport& report) {
  const BenchPlan& plan = report.plan;
  const MachineLimits limits = report.limits.value_or(MachineLimits{});
  const double peak = report.limits ? multiply_peak(report) : 0;
  const double batch = static_cast<double>(plan.batch);
  const auto prefill_rate =
      rate(batch * static_cast<double>(plan.prompt_len), mean_prefill(report));
  std::string text = fmt::format(
      "run             batch {}, prompt {}, generated {}, depth {}{}{}, {}\n", plan.batch,
      plan.prompt_len, plan.gen_len, plan.depth, plan.shared_depth ? " shared by all prompts" : "",
      report.draft.empty() ? "" : ", draft " + report.draft, counted(plan.reps, "repetition"));
  text += times_line("TTFT", collect(report, &BenchRep::ttft));
  text += times_line("TPOT", collect(report, &BenchRep::tpot));
  text += speed_line("prefill", prefill_rate, prefill_gflops(report), "GFLOP/s",
                     percent_of(prefill_gflops(report), peak), "the multiply peak");
  text += speed_line("decode", decode_rate(report), decode_gbs(report), "GB/s",
                     percent_of(decode_gbs(report), limits.read_gbs), "the read bandwidth");
  text += speculation_line(report);
  if (const auto percent = overhead_percent(report)) {
    text += fmt::format("between stages  {:.1f} us per decode step = {:.2f} %\n",
                        *step_overhead(report) * 1e6, *percent);
  }
  text +=
      fmt::format("memory          {}peak {:.1f} MiB, weights {:.1f} MiB, KV cache {:.1f} MiB\n",
                  report.info.hardware.empty() ? "" : "the host's ",
                  static_cast<double>(report.result.peak_bytes) / (1 << 20),
                  static_cast<double>(report.weight_bytes) / (1 << 20),
                  static_cast<double>(report.result.kv_bytes) / (1 << 20));
  return text + stage_lines(report) + "\n";
}

}  // namespace

std::string bench_table(std::span<const BenchReport> reports) {
  const BenchReport& first = reports.front();
  std::string text = fmt::format("model           {}\n", first.model) + machine_lines(first);
  for (const BenchReport& report : reports) text += run_lines(report);
  text += fmt::format("{}\n", fmt::join(kDefinitions, "\n"));
  if (first.limits) text += fmt::format("{}\n", fmt::join(kLimitDefinitions, "\n"));
  if (!first.info.hardware.empty()) {
    text += fmt::format("{}\n", fmt::join(kGpuDefinitions, "\n"));
  }
  return text;
}

std::string bench_json(std::span<const BenchReport> reports) {
  const BenchReport& report = reports.front();
  Json runs = Json::array();
  for (const BenchReport& each : reports) runs.push_back(run_json(each));
  const std::string& hardware = report.info.hardware;
  Json machine = {{"cpu", report.cpu},
                  {"gpu", hardware.empty() ? Json(nullptr) : Json(hardware)},
                  {"threads", report.threads}};
  const auto limit = [&](double MachineLimits::*field) {
    return report.limits && *report.limits.*field > 0 ? Json(*report.limits.*field) : Json(nullptr);
  };
  machine["read_gbs"] = limit(&MachineLimits::read_gbs);
  machine["f32_gflops"] = limit(&MachineLimits::f32_gflops);
  machine["bf16_gflops"] = limit(&MachineLimits::bf16_gflops);
  const Json object = {{"schema", 1},
                       {"machine", machine},
                       {"build", {{"version", version_number()}, {"compiler", compiler_name()}}},
                       {"config",
                        {{"model", report.model},
                         {"reps", report.plan.reps},
                         {"warmup", report.plan.warmup},
                         {"draft", report.draft.empty() ? Json(nullptr) : Json(report.draft)},
                         {"prefix_cache", report.plan.shared_depth}}},
                       {"definitions", fmt::format("{}", fmt::join(kDefinitions, " "))},
                       {"runs", std::move(runs)},
                       {"run", Json::parse(run_info_json(report.info))}};
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace llm
