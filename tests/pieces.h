// What tests of splitting share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/pretokenizer.h"

namespace llm {

using Pieces = std::vector<std::string>;

inline constexpr const char* kQwenRegex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

inline Pieces cut(const PreTokenizer& pre_tokenizer, std::string_view text) {
  Pieces pieces;
  PreTokenizer::Copies copies;
  pre_tokenizer.for_each_piece(text, copies,
                               [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

}  // namespace llm
