// What a model's logits say about a text: perplexity, and the distance from a baseline model.
//
// The text is read in windows of `ctx` tokens, each `stride` tokens after the one before it, and a
// window scores only tokens that none before it scored. Not scored is what nothing precedes: the
// first token of the text, and where stride = ctx of every window.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace llm {

/// Tokens [begin, end) of the text, of which [first_scored, end) are scored.
struct EvalWindow {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t first_scored = 0;

  int64_t num_scored() const { return end - first_scored; }
  bool operator==(const EvalWindow&) const = default;
};

/// The windows of a text of two tokens or more. Each scores at least one token. 2 <= ctx,
/// 1 <= stride <= ctx.
std::vector<EvalWindow> eval_windows(int64_t num_tokens, int64_t ctx, int64_t stride);

/// Of one token of the text, given those before it in its window.
struct TokenScore {
  double nll = 0;         // -log of its probability, in nats
  double excess_nll = 0;  // nll minus that of the baseline
  double kl = 0;          // KL(baseline, model) of the whole prediction, in nats
  bool same_top = false;  // both think the same token the most probable
};

/// The token's score without a baseline. Throws Error (exit code 1) for logits that aren't numbers.
TokenScore score_token(std::span<const float> logits, int32_t token);

/// Adds what the same token's logits of a baseline say. For kl and same_top only the first num_ids
/// logits of each are compared, as distributions of their own: two models may pad their embeddings
/// differently.
void compare_token(TokenScore& score, int32_t token, std::span<const float> logits,
                   std::span<const float> baseline_logits, int64_t num_ids);

/// KL(p, q) = sum of p log(p / q), in nats, of the softmax of two rows of equally many logits.
/// Exactly 0 for equal rows, never negative; infinite where q is zero and p isn't.
double kl_divergence(std::span<const float> p_logits, std::span<const float> q_logits);

struct EvalSummary {
  int64_t tokens = 0;  // scored
  double nll = 0;      // mean per token, in nats
  double ppl = 0;      // perplexity: exp(nll)
  /// Standard errors over the choice of the text, its tokens taken as independent draws: of nll,
  /// the standard deviation of the tokens' values over sqrt(tokens); of ppl, by the delta method,
  /// ppl times that. Nothing for a single token, or where they aren't finite.
  std::optional<double> nll_se = {};
  std::optional<double> ppl_se = {};
  // Without a baseline these say nothing.
  double excess_nll = 0;  // mean; exp(excess_nll) is the ratio of the perplexities
  std::optional<double> excess_nll_se = {};  // of it, from the same tokens' differences
  double kl_mean = 0;
  double kl_p99 = 0;  // nearest rank
  int64_t num_same_top = 0;
};

/// Of at least one score.
EvalSummary summarize(std::span<const TokenScore> scores);

}  // namespace llm
