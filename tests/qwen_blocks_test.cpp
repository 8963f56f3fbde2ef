// Qwen's split pattern on 64 bytes at a time, beside the scanner that goes from piece to piece.
#include "text/qwen_blocks.h"

#include <doctest/doctest.h>

#include <array>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_info.h"
#include "pieces.h"
#include "text/utf8.h"

namespace llm {
namespace {

using Random = std::mt19937;

const std::vector<std::string> kCharacters = {
    "a",      "Z",      "s",      "l",          "r",          "e",         "'",      " ",
    "  ",     "\n",     "\r",     "\t",         "7",          "-",         "{",      "@",
    "[",      "`",      "\x01",   "\x7f",       "\u00e9",     "\u017f",    "\u00a0", "\u0085",
    "\u00b2", "\u0301", "\u4e2d", "\u5b57",     "\u9fff",     "\u4dc0",    "\u3000", "\uff0c",
    "\u2028", "\u2167", "\uac00", "\U0001f600", "\U00020000", "\U0001d7ce"};

Pieces by_blocks(std::string_view text, Isa isa) {
  Pieces pieces;
  for_each_qwen_piece(text, text_kernels(isa),
                      [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

Pieces one_by_one(std::string_view text) {
  Pieces pieces;
  while (!text.empty()) {
    pieces.emplace_back(text.substr(0, scan_qwen(text)));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

/// Few kinds of characters, so that runs of them occur.
std::string random_text(Random& random, size_t length) {
  std::array<std::string, 5> alphabet;
  for (std::string& character : alphabet) character = kCharacters[random() % kCharacters.size()];
  std::string text;
  while (text.size() < length) {
    const std::string& character = alphabet[random() % alphabet.size()];
    const size_t count = random() % 8 == 0 ? random() % 80 : 1;
    for (size_t i = 0; i < count; ++i) text += character;
  }
  return text;
}

}  // namespace

TEST_CASE("blocks are cut into the pieces that the scanner finds one by one") {
  Random random(2);
  size_t num_pieces = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::string text = random_text(random, random() % 300);
    const Pieces expected = one_by_one(text);
    num_pieces += expected.size();
    for (const Isa isa : supported_isas()) {
      CAPTURE(name_of(isa));
      CAPTURE(text);
      REQUIRE(by_blocks(text, isa) == expected);
    }
  }
  MESSAGE(num_pieces << " pieces");
}

TEST_CASE("a piece is the same at every place of a block") {
  const std::vector<std::string> parts = {"it'll",
                                          "'Ve'\u017fx",
                                          " ''s",
                                          "\t'd",
                                          "x:\r\n\n  \n   y",
                                          " \n \n  1",
                                          "\u3000\u3000!",
                                          "\uff0c\u6211\u4eec\u3002",
                                          "->\u00a0\u00a0b",
                                          "   \U0001f600\n"};
  size_t num_texts = 0;
  for (const std::string& part : parts) {
    for (const char* filler : {"a", " ", "\n", "."}) {
      for (size_t before = 0; before <= 2 * kBlockBytes; ++before) {
        std::string text;
        for (size_t i = 0; i < before; ++i) text += filler;
        text += part;
        for (const std::string& end : {std::string(), std::string(70, 'z'), std::string(70, ' ')}) {
          const std::string whole = text + end;
          CAPTURE(whole);
          for (const Isa isa : supported_isas())
            REQUIRE(by_blocks(whole, isa) == one_by_one(whole));
          ++num_texts;
        }
      }
    }
  }
  MESSAGE(num_texts << " texts");
}

}  // namespace llm
