#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace llm {
namespace {

bool allows(AddedTokens recognised, const AddedToken& token) {
  return recognised == AddedTokens::kAll ||
         (recognised == AddedTokens::kNonSpecial && !token.special);
}

/// Where the character begins that ends at `end`.
size_t previous_character(std::string_view text, size_t end) {
  do {
    --end;
  } while ((static_cast<unsigned char>(text[end]) & 0xc0) == 0x80);
  return end;
}

bool is_space(std::string_view text, size_t position) {
  return char_class(code_point_at(text, position).value) == CharClass::kSpace;
}

CharSet needed_word_characters(const std::vector<AddedToken>& tokens) {
  const bool needed =
      std::any_of(tokens.begin(), tokens.end(), [](const AddedToken& t) { return t.single_word; });
  return needed ? word_characters() : CharSet();
}

}  // namespace

AddedTokenFinder::RecognitionMap::Range AddedTokenFinder::RecognitionMap::over(size_t begin,
                                                                               size_t end) {
  while (!spans_.empty() && spans_.front().end <= begin) spans_ = spans_.subspan(1);
  Range range = {everywhere_, true};
  size_t covered = begin;
  AddedTokens most = AddedTokens::kNone;
  for (const TextSpan& span : spans_) {
    if (span.begin >= end) break;
    if (span.begin >= span.end) continue;
    if (span.begin > covered) most = std::min(most, everywhere_);
    const AddedTokens here = std::max(everywhere_, span.recognised);
    range.least = std::max(range.least, here);
    most = std::min(most, here);
    covered = span.end;
  }
  if (covered < end) most = std::min(most, everywhere_);
  range.uniform = most == range.least;
  return range;
}

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), nodes_(1), word_characters_(needed_word_characters(tokens_)) {
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
  if (std::count(begins_token_.begin(), begins_token_.end(), true) == 1) {
    only_first_byte_ = static_cast<unsigned char>(tokens_[0].content[0]);
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

const AddedToken* AddedTokenFinder::recognise(std::string_view text, size_t begin,
                                              RecognitionMap& map, size_t& skip) const {
  skip = 1;
  size_t limit = text.size() - begin;
  while (const AddedToken* token = longest_at_begin(text.substr(begin, limit))) {
    const size_t length = token->content.size();
    const RecognitionMap::Range range = map.over(begin, begin + length);
    const bool allowed = allows(range.least, *token);
    if (allowed && (!token->single_word || stands_alone(text, begin, begin + length))) return token;
    if (allowed || range.uniform) {
      // The reference finds the longest token first and then takes it for plain text as a whole.
      skip = length;
      return nullptr;
    }
    // Only a border inside the token forbids it; a shorter one may end before the border.
    limit = length - 1;
  }
  return nullptr;
}

bool AddedTokenFinder::stands_alone(std::string_view text, size_t begin, size_t end) const {
  const auto is_word = [&](size_t position) {
    return word_characters_.contains(code_point_at(text, position).value);
  };
  return (begin == 0 || !is_word(previous_character(text, begin))) &&
         (end == text.size() || !is_word(end));
}

size_t end_of_white_space(std::string_view text, size_t from) {
  while (from < text.size() && is_space(text, from)) from += code_point_at(text, from).length;
  return from;
}

size_t begin_of_white_space(std::string_view text, size_t end) {
  while (end > 0) {
    const size_t begin = previous_character(text, end);
    if (!is_space(text, begin)) break;
    end = begin;
  }
  return end;
}

}  // namespace llm
