// llm run --logprobs without --json: a line for each generated token.
#pragma once

#include <span>
#include <string>

#include "backend/logprobs.h"
#include "text/tokenizer.h"

namespace llm {

/// A line of headings, then for each token its id, logprob and piece, and the most probable ones as
/// pieces with their logprobs. Pieces as in cli/pieces_table.h; without a tokenizer they are empty,
/// and the most probable tokens are ids.
std::string logprobs_table(std::span<const GeneratedLogprobs> tokens, const Tokenizer* tokenizer);

}  // namespace llm
