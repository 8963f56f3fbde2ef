#include "cli/logprobs_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/pieces_table.h"

namespace llm {
namespace {

constexpr int kMinPieceColumn = 5;   // the heading
constexpr int kMaxPieceColumn = 24;  // a longer piece moves the rest of its line to the right

VisiblePiece piece_of(int32_t id, const Tokenizer* tokenizer) {
  return tokenizer != nullptr ? visible_piece(tokenizer->bytes_of(id), /*styled=*/false)
                              : VisiblePiece{};
}

std::string candidate(const TokenLogprob& token, const Tokenizer* tokenizer) {
  const std::string piece = piece_of(token.id, tokenizer).text;
  return fmt::format("  {} {:.4f}", piece.empty() ? std::to_string(token.id) : piece,
                     token.logprob);
}

}  // namespace

std::string logprobs_table(std::span<const GeneratedLogprobs> tokens, const Tokenizer* tokenizer) {
  int column = kMinPieceColumn;
  for (const GeneratedLogprobs& token : tokens) {
    column = std::max(column, piece_of(token.chosen.id, tokenizer).width);
  }
  column = std::min(column, kMaxPieceColumn);
  const bool with_top = !tokens.empty() && !tokens.front().top.empty();
  std::string table = fmt::format(
      "{:>7}  {:>9}  {}\n", "id", "logprob",
      with_top ? fmt::format("{:<{}}  most probable", "piece", column) : std::string("piece"));
  for (const GeneratedLogprobs& token : tokens) {
    const VisiblePiece piece = piece_of(token.chosen.id, tokenizer);
    table += fmt::format("{:>7}  {:>9.4f}  {}", token.chosen.id, token.chosen.logprob, piece.text);
    if (with_top) table.append(static_cast<size_t>(std::max(0, column - piece.width)), ' ');
    for (const TokenLogprob& top : token.top) table += candidate(top, tokenizer);
    table += '\n';
  }
  return table;
}

}  // namespace llm
