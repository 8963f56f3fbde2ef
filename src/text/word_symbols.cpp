#include "text/word_symbols.h"

#include <algorithm>
#include <array>

#include "text/utf8.h"

namespace llm {

/// Reads some words ahead, asking for the lines of memory that merging them needs.
bool WordSymbols::read_words() {
  num_words_ = 0;
  next_word_ = 0;
  num_tokens_ = 0;
  while (num_words_ < kMaxWords && !rest_.empty()) {
    word_begin_ = num_tokens_;
    const std::string_view bytes = read_word();
    if (num_tokens_ > word_begin_ + kFew) num_tokens_ = word_begin_;
    words_[num_words_++] = {bytes.data(), bytes.size(), static_cast<uint32_t>(word_begin_),
                            static_cast<uint32_t>(num_tokens_ - word_begin_)};
  }
  return num_words_ > 0;
}

/// Of a word, one more symbol is counted than are few.
inline void WordSymbols::add(int32_t token) {
  const size_t count = num_tokens_ - word_begin_;
  if (count > kFew) return;
  tokens_[num_tokens_++] = token;
  if (count > 0) rules_.prefetch(tokens_[num_tokens_ - 2], token);
}

/// Takes a word off the rest: up to where merging stops, all of it where there are no borders.
std::string_view WordSymbols::read_word() {
  const std::string_view text = rest_;
  if (!rules_.borders()) {
    rest_ = {};
    num_tokens_ = word_begin_ + kFew + 1;
    return text;
  }
  const CharacterBorders& borders = *rules_.borders();
  size_t end = 0;
  CodePoint c = code_point_at(text, 0);
  bool crossed = false;  // one of the character's borders, by a token with a part of it
  bool at_border = false;
  while (!at_border) {
    const size_t begin = end;
    end += c.length;
    CodePoint next{};
    bool crossed_behind = false;
    if (end == text.size()) {
      at_border = true;
    } else {
      next = code_point_at(text, end);
      crossed_behind = borders.crossed_by_part(c, next, text[end - 1], text[end]);
      at_border = !crossed_behind && borders.stand_apart(c, next);
    }
    const int32_t token = crossed || crossed_behind ? kNoToken : rules_.early_token(c.value);
    if (token != kNoToken) {
      add(token);
    } else {
      for (size_t i = begin; i < end; ++i) add(rules_.byte_token(text[i]));
    }
    c = next;
    crossed = crossed_behind;
  }
  rest_.remove_prefix(end);
  return text.substr(0, end);
}

size_t WordSymbols::merge(int32_t* tokens, size_t count) const {
  std::array<MergeRules::Merge, kFew> merges;  // of each token with the next one
  const auto refresh = [&](size_t i) { merges[i] = rules_.find(tokens[i], tokens[i + 1]); };
  for (size_t i = 0; i + 1 < count; ++i) refresh(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) best = merges[i].rank < merges[best].rank ? i : best;
    if (merges[best].rank == MergeTable::kNoRank) break;
    tokens[best] = merges[best].result;
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      tokens[i] = tokens[i + 1];
      merges[i - 1] = merges[i];
    }
    if (best + 1 < count) refresh(best);
    if (best > 0) refresh(best - 1);
  }
  return count;
}

}  // namespace llm
