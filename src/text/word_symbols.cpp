#include "text/word_symbols.h"

#include <algorithm>

#include "text/utf8.h"

namespace llm {

std::string_view WordSymbols::next_word() {
  const std::string_view text = rest_;
  num_tokens_ = 0;
  if (!rules_.borders()) {
    rest_ = {};
    return text;
  }
  const CharacterBorders& borders = *rules_.borders();
  size_t count = 0;
  const auto add = [&](int32_t token) {
    if (count < kFew) tokens_[count] = token;
    ++count;
  };
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
      crossed_behind = borders.crossed_by_part(text[end - 1], text[end]);
      at_border = !crossed_behind && borders.part(c, next);
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
  if (count <= kFew) num_tokens_ = count;
  rest_.remove_prefix(end);
  return text.substr(0, end);
}

void WordSymbols::refresh(size_t position) {
  merges_[position] = rules_.find(tokens_[position], tokens_[position + 1]);
}

void WordSymbols::append_merged_to(std::vector<int32_t>& ids) {
  if (num_tokens_ > 1) merge();
  ids.insert(ids.end(), tokens_.begin(), tokens_.begin() + num_tokens_);
}

void WordSymbols::merge() {
  for (size_t i = 0; i + 1 < num_tokens_; ++i) refresh(i);
  while (num_tokens_ > 1) {
    const auto end = merges_.begin() + num_tokens_ - 1;
    const auto best = std::min_element(
        merges_.begin(), end, [](const auto& a, const auto& b) { return a.rank < b.rank; });
    if (best->rank == MergeTable::kNoRank) return;
    const auto position = static_cast<size_t>(best - merges_.begin());
    tokens_[position] = best->result;
    --num_tokens_;
    std::copy(tokens_.begin() + position + 2, tokens_.begin() + num_tokens_ + 1,
              tokens_.begin() + position + 1);
    std::copy(best + 1, end, best);
    if (position + 1 < num_tokens_) refresh(position);
    if (position > 0) refresh(position - 1);
  }
}

}  // namespace llm
