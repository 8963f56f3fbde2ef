// Tokens that are found in the raw text before anything else happens to it ("<|im_end|>").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llm {

struct AddedToken {
  int32_t id = 0;
  std::string content;  // not empty, well-formed UTF-8
  bool special = false;
};

/// Finds added tokens in a text by a trie over their bytes.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  const std::vector<AddedToken>& tokens() const { return tokens_; }

  /// The longest token that stands at the beginning of `text`, or null.
  const AddedToken* longest_at_begin(std::string_view text) const;

  /// The first position from `from` on where a token may begin; text.size() if there is none.
  size_t next_candidate(std::string_view text, size_t from) const {
    while (from < text.size() && !begins_token_[static_cast<unsigned char>(text[from])]) ++from;
    return from;
  }

  /// The token with this text, or null.
  const AddedToken* find(std::string_view content) const;

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  struct Node {
    std::vector<std::pair<char, size_t>> children;  // byte and index in nodes_
    size_t token = kNone;                           // in tokens_, that ends here
  };

  /// Index of a node's child, or kNone.
  size_t child(size_t node, char byte) const;
  const AddedToken* token_at(size_t node) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;  // the root first
  std::array<bool, 256> begins_token_{};
};

}  // namespace llm
