#include "text/safe_cuts.h"

#include <algorithm>

namespace llm {
namespace {

bool is_ascii(char byte) { return static_cast<unsigned char>(byte) < 0x80; }
bool is_lead(char byte) { return static_cast<unsigned char>(byte) >= 0xc0; }
bool is_continuation(char byte) { return !is_ascii(byte) && !is_lead(byte); }

/// Whether the text begins with a whole character.
bool begins_whole(std::string_view text) {
  return first_utf8_part(text).kind == Utf8Part::Kind::kCharacter;
}

/// Where the character begins that ends before `end`, or `end` if the text lacks its beginning.
size_t character_before(std::string_view text, size_t end) {
  size_t begin = end;
  while (begin > 0 && is_continuation(text[begin - 1])) --begin;
  if (begin == 0 || !is_lead(text[begin - 1])) return end;
  --begin;
  return begins_whole(text.substr(begin)) ? begin : end;
}

}  // namespace

SafeCuts::SafeCuts(const Vocabulary& vocabulary) {
  for (int32_t id = 0; id < vocabulary.num_ids(); ++id) {
    const std::string_view token = vocabulary.bytes_of(id);
    if (!std::all_of(token.begin(), token.end(), is_ascii)) add(token);
  }
}

void SafeCuts::add(std::string_view token) {
  for (size_t i = 1; i < token.size(); ++i) {
    if (!is_lead(token[i]) || !is_continuation(token[i - 1])) continue;
    const size_t left = character_before(token, i);
    if (left < i && begins_whole(token.substr(i))) {
      const size_t pair = hash(code_point_at(token, left).value, code_point_at(token, i).value);
      pairs_[pair / 64] |= uint64_t{1} << pair % 64;
    } else {
      parts_[static_cast<unsigned char>(token[i - 1]) % 64] |=
          uint64_t{1} << static_cast<unsigned char>(token[i]) % 64;
    }
  }
}

}  // namespace llm
