#include "cli/eval_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/counted.h"

namespace llm {
namespace {

using Json = nlohmann::ordered_json;

Json number(std::optional<double> value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

double top1(const EvalSummary& summary) {
  return static_cast<double>(summary.num_same_top) / static_cast<double>(summary.tokens);
}

std::string with_error(double value, std::optional<double> error) {
  return error ? fmt::format("{:.4f} +/- {:.4f}", value, *error) : fmt::format("{:.4f}", value);
}

}  // namespace

std::string eval_table(const EvalReport& report) {
  const EvalSummary& s = report.summary;
  std::string text =
      fmt::format("model           {} ({}, {}, act {}, KV {})\n", report.model, report.info.device,
                  report.info.isa, report.info.act, report.info.kv_dtype);
  text += fmt::format("text            {}, {} scored, {} of {}, stride {}\n",
                      counted(report.text_tokens, "token"), s.tokens,
                      counted(report.num_windows, "window"), report.ctx, report.stride);
  text += fmt::format("perplexity      {}   (mean NLL {} nats per token)\n",
                      with_error(s.ppl, s.ppl_se), with_error(s.nll, s.nll_se));
  if (!report.baseline) return text;
  text += fmt::format("baseline        {}\n", *report.baseline);
  text += fmt::format(
      "against it      mean NLL {:+.6f} +/- {:.6f} nats per token: perplexity {:+.3f} %\n",
      s.excess_nll, s.excess_nll_se.value_or(0), 100 * std::expm1(s.excess_nll));
  text +=
      fmt::format("KL              mean {:.6f}, p99 {:.6f} nats per token\n", s.kl_mean, s.kl_p99);
  text += fmt::format("top-1           the same for {} of {} ({:.2f} %)\n", s.num_same_top,
                      counted(s.tokens, "token"), 100 * top1(s));
  return text;
}

std::string eval_json(const EvalReport& report) {
  const EvalSummary& s = report.summary;
  const bool compared = report.baseline.has_value();
  const Json object = {{"tokens", s.tokens},
                       {"nll", number(s.nll)},
                       {"ppl", number(s.ppl)},
                       {"ppl_se", number(s.ppl_se)},
                       {"nll_excess", compared ? number(s.excess_nll) : Json(nullptr)},
                       {"nll_excess_se", compared ? number(s.excess_nll_se) : Json(nullptr)},
                       {"kl_mean", compared ? number(s.kl_mean) : Json(nullptr)},
                       {"kl_p99", compared ? number(s.kl_p99) : Json(nullptr)},
                       {"top1", compared ? Json(top1(s)) : Json(nullptr)},
                       {"baseline", compared ? Json(*report.baseline) : Json(nullptr)},
                       {"ctx", report.ctx},
                       {"stride", report.stride},
                       {"windows", report.num_windows},
                       {"run", Json::parse(run_info_json(report.info))}};
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace llm
