#include "text/added_tokens.h"

namespace llm {

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), nodes_(1) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    begins_token_[static_cast<unsigned char>(tokens_[i].content[0])] = true;
    size_t node = 0;
    for (const char byte : tokens_[i].content) {
      size_t next = child(node, byte);
      if (next == kNone) {
        next = nodes_.size();
        nodes_.emplace_back();
        nodes_[node].children.emplace_back(byte, next);
      }
      node = next;
    }
    nodes_[node].token = i;
  }
}

size_t AddedTokenFinder::child(size_t node, char byte) const {
  for (const auto& [label, index] : nodes_[node].children) {
    if (label == byte) return index;
  }
  return kNone;
}

const AddedToken* AddedTokenFinder::token_at(size_t node) const {
  return nodes_[node].token == kNone ? nullptr : &tokens_[nodes_[node].token];
}

const AddedToken* AddedTokenFinder::longest_at_begin(std::string_view text) const {
  const AddedToken* found = nullptr;
  size_t node = 0;
  for (const char byte : text) {
    node = child(node, byte);
    if (node == kNone) break;
    if (const AddedToken* token = token_at(node)) found = token;
  }
  return found;
}

const AddedToken* AddedTokenFinder::find(std::string_view content) const {
  const AddedToken* longest = longest_at_begin(content);
  return longest != nullptr && longest->content.size() == content.size() ? longest : nullptr;
}

}  // namespace llm
