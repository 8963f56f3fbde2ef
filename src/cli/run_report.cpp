#include "cli/run_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/counted.h"
#include "cli/version.h"
#include "text/value.h"

namespace llm {
namespace {

using Json = nlohmann::ordered_json;

Json milliseconds(std::optional<double> seconds) {
  return seconds && std::isfinite(*seconds) ? Json(*seconds * 1e3) : Json(nullptr);
}

Json logprob_json(const TokenLogprob& token) {
  return {{"id", token.id}, {"logprob", token.logprob}};  // JSON has no infinity: null
}

Json logprobs_json(const std::vector<GeneratedLogprobs>& tokens) {
  Json list = Json::array();
  for (const GeneratedLogprobs& token : tokens) {
    Json top = Json::array();
    for (const TokenLogprob& candidate : token.top) top.push_back(logprob_json(candidate));
    list.push_back(logprob_json(token.chosen));
    list.back()["top"] = std::move(top);
  }
  return list;
}

std::string dump(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json info_object(const RunInfo& info) {
  return {{"version", version_number()},
          {"device", info.device},
          {"gpu", info.hardware.empty() ? Json(nullptr) : Json(info.hardware)},
          {"invariant", info.invariant},
          {"isa", info.isa},
          {"act", info.act},
          {"kv_dtype", info.kv_dtype},
          {"seed", info.seed},
          {"model_sha256", nullptr}};
}

std::string milliseconds_text(std::optional<double> seconds) {
  return seconds ? fmt::format("{:.2f} ms", *seconds * 1e3) : std::string("-");
}

/// Of the model itself, not of a draft.
double tokens_per_pass(int64_t num_ids, int64_t num_accepted) {
  return static_cast<double>(num_ids) /
         static_cast<double>(std::max<int64_t>(1, num_ids - num_accepted));
}

std::string per_second(double amount, std::optional<double> seconds) {
  return seconds && *seconds > 0 ? fmt::format("{:.2f} tok/s", amount / *seconds)
                                 : std::string("-");
}

}  // namespace

RunInfo info_of(const Backend& backend, DType kv_dtype, uint64_t seed) {
  return {std::string(backend.name()),
          backend.isa(),
          std::string(name_of(backend.act())),
          std::string(kv_dtype_name(kv_dtype)),
          seed,
          backend.hardware(),
          backend.is_invariant()};
}

std::string run_info_json(const RunInfo& info) { return dump(info_object(info)); }

std::string run_json(const RunResult& result, const RunInfo& info, bool with_prompt_ids) {
  Json object;
  object["content"] = result.content;
  object["reasoning"] = result.reasoning ? Json(*result.reasoning) : Json(nullptr);
  int64_t number = result.first_tool_call;
  for (const ToolCall& call : result.tool_calls) {
    object["tool_calls"].push_back(
        {{"id", tool_call_id(number++)},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  object["ids"] = result.ids;
  if (with_prompt_ids) object["prompt_ids"] = result.prompt_ids;
  object["finish_reason"] = std::string(name_of(result.finish_reason));
  object["usage"] = {{"prompt_tokens", result.prompt_ids.size()},
                     {"completion_tokens", result.ids.size()},
                     {"reasoning_tokens", result.reasoning_tokens},
                     {"cached_tokens", result.cached_tokens}};
  object["ttft_ms"] = milliseconds(result.ttft);
  object["tpot_ms"] = milliseconds(result.tpot);
  if (result.logprobs) object["logprobs"] = logprobs_json(*result.logprobs);
  object["run"] = info_object(info);
  return dump(object) + "\n";
}

std::string tool_call_id(int64_t number) { return fmt::format("call_{}", number); }

std::string tool_call_text(const ToolCall& call) {
  Dict object;
  object.set(Value("name"), Value(call.name));
  object.set(Value("arguments"), parse_json_value(call.arguments, "arguments"));
  return to_json(Value(std::move(object))).str();
}

std::string run_stats(const RunResult& result) {
  const auto prompt_tokens = static_cast<int64_t>(result.prompt_ids.size());
  const double computed = static_cast<double>(prompt_tokens - result.cached_tokens);
  std::string text = fmt::format(
      "prompt {}{}, answer {}, finish: {}\n", counted(prompt_tokens, "token"),
      result.cached_tokens > 0 ? fmt::format(" ({} of them cached)", result.cached_tokens) : "",
      counted(static_cast<int64_t>(result.ids.size()), "token"),
      result.interrupted ? "interrupted" : name_of(result.finish_reason));
  text += fmt::format("TTFT {} (request accepted to first token out)   prefill {}\n",
                      milliseconds_text(result.ttft), per_second(computed, result.prefill));
  text += fmt::format("TPOT {} ((end - first token) / (output tokens - 1))   decode {}",
                      milliseconds_text(result.tpot), per_second(1, result.tpot));
  if (result.tpot && *result.tpot > 0) {
    const double pass = *result.tpot * tokens_per_pass(std::ssize(result.ids), result.num_accepted);
    text += fmt::format("   {:.1f} GB/s", result.decode_bytes / pass / 1e9);
  }
  text += "\n";
  if (result.num_proposed > 0) {
    text += "speculation " +
            speculation_stats(std::ssize(result.ids), result.num_proposed, result.num_accepted);
  }
  return text;
}

std::string speculation_stats(int64_t num_ids, int64_t num_proposed, int64_t num_accepted) {
  const auto accepted = static_cast<double>(num_accepted);
  return fmt::format(
      "{} of {} guesses right ({:.0f} %), {:.2f} tokens per forward pass of the "
      "model\n",
      num_accepted, num_proposed, 100 * accepted / static_cast<double>(num_proposed),
      tokens_per_pass(num_ids, num_accepted));
}

}  // namespace llm
