// Tokens that are found in a text before it is cut into pieces ("<|im_end|>").
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/general_category.h"

namespace llm {

/// Which added tokens ("<|im_end|>", "<think>") are recognised in a text; the rest is plain text.
enum class AddedTokens {
  kAll,         // the reference's default
  kNonSpecial,  // only those without "special": true (the reference's encode_special_tokens)
  kNone,
};

/// Bytes [begin, end) of a text in which fewer added tokens are recognised than in the rest. An
/// added token is recognised only where every byte of it allows that.
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;
  AddedTokens recognised = AddedTokens::kNone;
};

struct AddedToken {
  int32_t id = 0;
  std::string content;  // not empty, well-formed UTF-8
  bool special = false;
  bool normalized = false;   // looked for in the normalized text, not in the raw one
  bool single_word = false;  // only where no letter, mark or digit adjoins
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and after it
};

/// Finds added tokens in a text by a trie over their bytes.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  const std::vector<AddedToken>& tokens() const { return tokens_; }

  /// Finds the tokens of a text from the left to the right, the longest where several begin. Calls
  /// on_text(begin, end) for each part of `text` between them, on_token(token) for each token.
  /// `spans` are ascending and disjoint.
  template <typename OnText, typename OnToken>
  void split(std::string_view text, AddedTokens recognised, std::span<const TextSpan> spans,
             OnText&& on_text, OnToken&& on_token) const;

  /// The token with this text, or null.
  const AddedToken* find(std::string_view content) const;

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  struct Node {
    std::vector<std::pair<char, size_t>> children;  // byte and index in nodes_
    size_t token = kNone;                           // in tokens_, that ends here
  };
  class RecognitionMap;

  /// The longest token that stands at the beginning of `text`, or null.
  const AddedToken* longest_at_begin(std::string_view text) const;

  /// The first position from `from` on where a token may begin; text.size() if there is none.
  size_t next_candidate(std::string_view text, size_t from) const {
    if (only_first_byte_ >= 0) {
      return std::min(text.find(static_cast<char>(only_first_byte_), from), text.size());
    }
    while (from < text.size() && !begins_token_[static_cast<unsigned char>(text[from])]) ++from;
    return from;
  }

  /// The token at `begin`, or null; then `skip` is how far the search moves on.
  const AddedToken* recognise(std::string_view text, size_t begin, RecognitionMap& map,
                              size_t& skip) const;
  bool stands_alone(std::string_view text, size_t begin, size_t end) const;

  /// Index of a node's child, or kNone.
  size_t child(size_t node, char byte) const;
  const AddedToken* token_at(size_t node) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;  // the root first
  std::array<bool, 256> begins_token_{};
  CharTable word_characters_;
  int only_first_byte_ = -1;  // if all tokens begin with the same one
};

/// What is recognised where in a text, asked for from the left to the right.
class AddedTokenFinder::RecognitionMap {
 public:
  RecognitionMap(AddedTokens everywhere, std::span<const TextSpan> spans)
      : everywhere_(everywhere), spans_(spans) {}

  struct Range {
    AddedTokens least;  // the most that all bytes of the range allow
    bool uniform;       // whether they all allow the same
  };

  /// For a range that begins no earlier than any asked for before.
  Range over(size_t begin, size_t end);

 private:
  AddedTokens everywhere_;
  std::span<const TextSpan> spans_;
};

/// Where the white space ends that begins at `from`, and begins that ends there.
size_t end_of_white_space(std::string_view text, size_t from);
size_t begin_of_white_space(std::string_view text, size_t end);

template <typename OnText, typename OnToken>
void AddedTokenFinder::split(std::string_view text, AddedTokens recognised,
                             std::span<const TextSpan> spans, OnText&& on_text,
                             OnToken&& on_token) const {
  RecognitionMap map(recognised, spans);
  size_t done = 0;  // up to here the text is in a token or was passed on
  size_t at = recognised == AddedTokens::kNone || tokens_.empty() ? text.size() : 0;
  while ((at = next_candidate(text, at)) < text.size()) {
    size_t skip = 0;
    const AddedToken* token = recognise(text, at, map, skip);
    if (token == nullptr) {
      at += skip;
      continue;
    }
    const size_t end = at + token->content.size();
    const size_t begin = token->lstrip ? begin_of_white_space(text, at) : at;
    if (done < begin) on_text(done, begin);
    on_token(*token);
    // As in the reference the search goes on behind the token, not behind its white space: a token
    // that begins with white space is still found there.
    done = token->rstrip ? end_of_white_space(text, end) : end;
    at = end;
  }
  if (done < text.size()) on_text(done, text.size());
}

}  // namespace llm
