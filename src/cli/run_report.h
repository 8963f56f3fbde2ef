// What `llm run` reports beside the text: the JSON object and the statistics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/loop_guard.h"
#include "engine/sequence.h"
#include "text/tool_calls.h"

namespace llm {

/// What an answer was made with: the "run" object of every result.
struct RunInfo {
  std::string device;
  std::string isa;
  std::string act;
  std::string kv_dtype;
  uint64_t seed = 0;
  std::string hardware = {};  // a GPU's name; empty: the CPU
  bool invariant = true;
};

RunInfo info_of(const Backend& backend, DType kv_dtype, uint64_t seed);

/// A finished answer. Times in seconds.
struct RunResult {
  std::string content;
  std::optional<std::string> reasoning;  // none in raw mode, or where the model didn't think
  std::vector<ToolCall> tool_calls;
  int64_t first_tool_call = 1;             // its number in the conversation
  std::vector<std::string> tool_problems;  // why what began like a tool call stayed text
  std::vector<int32_t> prompt_ids;
  std::vector<int32_t> ids;  // generated, with the final eos and the tokens of a cut stop string
  std::optional<std::vector<GeneratedLogprobs>> logprobs;  // of ids, where asked for
  FinishReason finish_reason = FinishReason::kNone;
  bool interrupted = false;              // by the user
  std::optional<Repetition> repetition;  // what the loop guard found
  bool budget_spent = false;             // --think-budget ended a thought
  int64_t reasoning_tokens = 0;
  int64_t cached_tokens = 0;   // of the prompt, found in the prefix cache
  int64_t num_proposed = 0;    // guesses that were verified
  int64_t num_accepted = 0;    // and right
  double prefill = 0;          // request accepted to the prompt's end
  std::optional<double> ttft;  // request accepted to first token out
  std::optional<double> tpot;  // (end - first token) / (output tokens - 1)
  double decode_bytes = 0;     // weights and cache that a mean decode step reads
};

/// The "run" object of a result, as JSON.
std::string run_info_json(const RunInfo& info);

/// One line. The ids of the prompt only if asked for. model_sha256 is null: reading a whole
/// checkpoint for it would cost more than most answers. A logprob of minus infinity is null.
std::string run_json(const RunResult& result, const RunInfo& info, bool with_prompt_ids);

/// The id of the nth tool call of a conversation, from 1 on.
std::string tool_call_id(int64_t number);

/// {"name": ..., "arguments": {...}} on one line, without a line end.
std::string tool_call_text(const ToolCall& call);

/// Lines for a person.
std::string run_stats(const RunResult& result);

/// How many guesses were right, and what that saved: a line. For num_proposed > 0.
std::string speculation_stats(int64_t num_ids, int64_t num_proposed, int64_t num_accepted);

}  // namespace llm
