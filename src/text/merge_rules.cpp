#include "text/merge_rules.h"

#include <algorithm>
#include <utility>

#include "text/merger.h"
#include "text/utf8.h"

namespace llm {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

MergeRules::MergeRules(const Vocabulary& vocabulary, MergeTable merges, int32_t unknown_token)
    : merges_(std::move(merges)) {
  bool all_have_tokens = true;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const int32_t id = vocabulary.find({&c, 1});
    all_have_tokens &= id != kNoToken;
    byte_tokens_[byte] = id != kNoToken ? id : unknown_token;
  }
  if (!all_have_tokens) return;
  early_characters_.assign(kNumCharacters, kNoToken);
  std::copy_n(byte_tokens_.begin(), 0x80, early_characters_.begin());
  borders_.emplace(vocabulary);
  find_early_characters(vocabulary);
}

/// A character's bytes merge among themselves until it is whole, unless a token reaches across one
/// of its borders to a part of it (that is checked in each text). If all these merges come before
/// every merge that the character takes part in, nothing is done differently when it is whole from
/// the beginning: as long as it isn't, a merge inside it comes first.
void MergeRules::find_early_characters(const Vocabulary& vocabulary) {
  const std::vector<uint32_t> lowest_ranks = merges_.lowest_ranks(vocabulary.num_ids());
  std::vector<std::pair<char32_t, int32_t>> found;
  MergedStretch stretch;
  for (int32_t id = 0; id < vocabulary.num_ids(); ++id) {
    const std::string_view token = vocabulary.bytes_of(id);
    if (token.size() != 2 && token.size() != 3) continue;
    const Utf8Part part = first_utf8_part(token);
    if (part.kind != Utf8Part::Kind::kCharacter || part.length != token.size()) continue;
    stretch.merge(*this, token);
    const bool whole = stretch.next(0) == stretch.end() && stretch.token(0) == id;
    if (whole && stretch.highest_rank() < lowest_ranks[id]) {
      found.emplace_back(code_point_at(token, 0).value, id);
    }
  }
  for (const auto& [character, id] : found) early_characters_[character] = id;
}

MergeRules::Symbol MergeRules::character_at(std::string_view text, size_t position) const {
  constexpr Symbol kNone = {kNoToken, 0};
  const unsigned char lead = static_cast<unsigned char>(text[position]);
  const size_t length = lead < 0xe0 ? 2 : 3;
  const size_t end = position + length;
  if (lead >= 0xf0 || end > text.size()) return kNone;
  for (size_t i = position + 1; i < end; ++i) {
    if (!is_continuation(text[i])) return kNone;
  }
  const int32_t token = early_characters_[code_point_at(text, position).value];
  if (position > 0 && borders_->crossed_by_part(text[position - 1], text[position])) return kNone;
  if (end < text.size() &&
      (is_continuation(text[end]) || borders_->crossed_by_part(text[end - 1], text[end]))) {
    return kNone;
  }
  return {token, length};
}

}  // namespace llm
