// Cuts a text into the pieces that BPE works on, as a tokenizer.json's "pre_tokenizer" says.
//
// There is no regular-expression engine: each pattern in use has a scanner written by hand, chosen
// by the pattern's exact text. A new pattern is one more scanner.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace llm {

/// Bytes of the first piece of a non-empty text (well-formed UTF-8): at least 1, whole characters.
/// What stands before the text never matters.
using Scanner = size_t (*)(std::string_view text);

/// The scanner of a "Split" regular expression (behavior "Isolated"), or null if there is none.
Scanner scanner_for_pattern(std::string_view regex);

/// GPT-2's pattern, which "ByteLevel" applies with "use_regex": true.
size_t scan_gpt2(std::string_view text);
/// "Digits" with "individual_digits": true: each number character alone, the rest in whole runs.
size_t scan_digits(std::string_view text);

class PreTokenizer {
 public:
  /// Each scanner cuts the pieces of the one before it. With none the whole text is one piece.
  explicit PreTokenizer(std::vector<Scanner> scanners) : scanners_(std::move(scanners)) {}

  /// Calls sink(std::string_view piece) for all pieces of `text` (well-formed UTF-8) in order.
  template <typename Sink>
  void for_each_piece(std::string_view text, Sink&& sink) const {
    cut(0, text, sink);
  }

 private:
  template <typename Sink>
  void cut(size_t depth, std::string_view text, Sink& sink) const {
    if (depth == scanners_.size()) {
      if (!text.empty()) sink(text);
      return;
    }
    while (!text.empty()) {
      const size_t length = scanners_[depth](text);
      cut(depth + 1, text.substr(0, length), sink);
      text.remove_prefix(length);
    }
  }

  std::vector<Scanner> scanners_;
};

}  // namespace llm
