// Runs a model, and a baseline beside it, over the windows of a text and scores its tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/session.h"
#include "engine/text_scores.h"

namespace llm {

/// How the windows go through the engine. Scores depend on none of it.
struct EvalPlan {
  std::vector<EvalWindow> windows;
  int64_t context = 0;           // most tokens of a window
  int64_t max_num_seqs = 1;      // windows computed at the same time
  int64_t prefill_chunk = 0;     // rows of one step, whose logits are in memory together
  int64_t num_cache_tokens = 0;  // of each model

  /// Tokens that all windows score.
  int64_t num_scored() const;
};

/// A plan that bounds the memory for logits; vocab_size is that of the model with more ids. Without
/// max_num_seqs as many windows are computed together as fill a step.
EvalPlan plan_evaluation(std::vector<EvalWindow> windows, int64_t vocab_size,
                         std::optional<int64_t> max_num_seqs);

struct EvalModel {
  LoadedModel* model = nullptr;
  DType kv_dtype = DType::kBF16;
};

/// Scores in the windows' order. The baseline, if there is one, has the same tokens; the first
/// num_ids ids are compared. on_progress is told after each step how many tokens are scored.
/// Throws Error (exit code 1) for logits that aren't numbers, naming the token's place.
std::vector<TokenScore> evaluate(const EvalModel& model, const std::optional<EvalModel>& baseline,
                                 std::span<const int32_t> ids, int64_t num_ids,
                                 const EvalPlan& plan,
                                 const std::function<void(int64_t num_scored)>& on_progress);

}  // namespace llm
