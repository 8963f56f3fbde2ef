// llm tokenize --pieces: tokens as a table that a person reads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace llm {

/// A token's bytes as visible characters, and how many columns they take.
struct VisiblePiece {
  std::string text;
  int width = 0;
};

/// A space becomes U+2423; other blanks, controls, invisible and unassigned characters, a backslash
/// and bytes that make no whole character become escapes: \n \t \r \\ \xE4 \u{3000}. A combining
/// mark without a letter in its piece stands on a dotted circle. With `styled` what stands for
/// something else is in another colour.
VisiblePiece visible_piece(std::string_view bytes, bool styled);

/// Calls write(text) with the table, in parts: a line of headings, then for each token its id, its
/// piece and its bytes in hexadecimal (the first 16).
void write_pieces_table(const Tokenizer& tokenizer, std::span<const int32_t> ids, bool styled,
                        const std::function<void(std::string_view)>& write);

}  // namespace llm
