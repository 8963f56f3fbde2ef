// Cuts a text into the pieces that BPE works on, as a tokenizer.json's "pre_tokenizer" says.
//
// Patterns that matter have a scanner written by hand; any other one is matched as it is written
// (split.h), which gives the same pieces.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/qwen_blocks.h"
#include "text/qwen_scanner.h"
#include "text/split.h"
#include "text/text_kernels.h"

namespace llm {

/// Bytes of the first piece of a non-empty text (well-formed UTF-8): at least 1, whole characters.
/// What stands before the text never matters.
using Scanner = size_t (*)(std::string_view text);

/// The hand-written scanner for a "Split" regular expression with behavior "Isolated", or null.
Scanner scanner_for_pattern(std::string_view regex);

/// GPT-2's pattern, which "ByteLevel" applies with "use_regex": true.
size_t scan_gpt2(std::string_view text);
/// "Digits" with "individual_digits": each number character alone, the rest in whole runs.
size_t scan_digits(std::string_view text);
/// The same with whole runs of numbers.
size_t scan_digit_runs(std::string_view text);

/// "ByteLevel" with "add_prefix_space": a space goes before a text that doesn't begin with one.
struct PrefixSpace {};

class PreTokenizer {
 public:
  using Step = std::variant<Scanner, Split, PrefixSpace>;

  /// Each step cuts the pieces of the one before it. With none the whole text is one piece.
  explicit PreTokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  /// Texts that steps have made; they stay where they are.
  using Copies = std::list<std::string>;

  /// Whether a piece always begins behind a line break that white space doesn't follow, and a text
  /// may be cut there.
  bool cuts_before_lines() const { return is_qwen(); }

  /// Calls sink(std::string_view piece) for all pieces of `text` (well-formed UTF-8) in order. They
  /// lie in `text`, or after a PrefixSpace in `copies`.
  template <typename Sink>
  void for_each_piece(std::string_view text, Copies& copies, Sink&& sink) const {
    if (is_qwen()) {
      for_each_qwen_piece(text, *kernels_, sink);
    } else {
      cut(0, text, copies, sink);
    }
  }

 private:
  bool is_qwen() const {
    const Scanner* only = steps_.size() == 1 ? std::get_if<Scanner>(&steps_[0]) : nullptr;
    return only != nullptr && *only == scan_qwen;
  }

  template <typename Sink>
  void cut(size_t depth, std::string_view text, Copies& copies, Sink& sink) const {
    if (text.empty()) return;
    if (depth == steps_.size()) {
      sink(text);
    } else if (const Scanner* scanner = std::get_if<Scanner>(&steps_[depth])) {
      while (!text.empty()) {
        const size_t length = (*scanner)(text);
        cut(depth + 1, text.substr(0, length), copies, sink);
        text.remove_prefix(length);
      }
    } else if (const Split* split = std::get_if<Split>(&steps_[depth])) {
      split->for_each_piece(text,
                            [&](std::string_view piece) { cut(depth + 1, piece, copies, sink); });
    } else if (text[0] == ' ') {
      cut(depth + 1, text, copies, sink);
    } else {
      cut(depth + 1, copies.emplace_back(" ").append(text), copies, sink);
    }
  }

  std::vector<Step> steps_;
  const TextKernels* kernels_ = &text_kernels();
};

}  // namespace llm
