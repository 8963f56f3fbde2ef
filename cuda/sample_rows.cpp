#include "cuda/sample_rows.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace llm {

DeviceSampleRow device_sample_row(const SampleRow& row, std::vector<IdCount>& penalised) {
  const std::vector<IdCount> ids = penalised_ids(row);
  DeviceSampleRow result;
  result.rule = draw_rule(*row.params);
  result.penalties = penalties_of(*row.params);
  result.counter = row.num_drawn();
  result.logits_row = row.logits_row;
  result.num_ids = static_cast<int32_t>(row.num_ids);
  result.first_penalised = static_cast<int32_t>(penalised.size());
  result.num_penalised = static_cast<int32_t>(ids.size());
  if (row.input_is_output && has_penalties(*row.params)) {
    result.pending_at = static_cast<int32_t>(row.logits_row);
  }
  if (row.num_logprobs) result.num_top = static_cast<int32_t>(*row.num_logprobs);
  penalised.insert(penalised.end(), ids.begin(), ids.end());
  return result;
}

GeneratedLogprobs logprobs_of(const RowLogprobs& row, int32_t chosen, int64_t num_top,
                              int64_t width) {
  LLM_CHECK(num_top >= 0 && num_top <= kMaxTopLogprobs, "{} ids", num_top);
  const double total = double{row.largest} +
                       std::log(std::ldexp(static_cast<double>(row.total), -draw::kWeightBits));
  GeneratedLogprobs result{.chosen = {chosen, double{row.chosen} - total}};
  for (int64_t i = 0; i < std::min(num_top, width); ++i) {
    result.top.push_back({row.top_ids[i], double{row.top_logits[i]} - total});
  }
  return result;
}

}  // namespace llm
