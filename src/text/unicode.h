// Character classes and canonical composition (NFC) as the reference tokenizer has them: classes by
// a newer Unicode version than normalization (unicode_tables.h names both).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/unicode_tables.h"

namespace llm {

/// What split patterns call \p{N}, \s and \p{L}; everything else is kOther.
enum class CharClass : uint8_t { kOther = 0, kNumber = 1, kSpace = 2, kLetter = 3 };

namespace unicode_tables {

inline uint8_t properties_of(char32_t code_point) {
  return kProperties[kBlockOf[code_point / kBlockSize]][code_point % kBlockSize];
}

}  // namespace unicode_tables

/// code_point <= U+10FFFF.
inline CharClass char_class(char32_t code_point) {
  return static_cast<CharClass>(unicode_tables::properties_of(code_point) & 3);
}

/// True if `text` (well-formed UTF-8) is known to be its own NFC form without a closer look.
bool is_surely_nfc(std::string_view text);

/// NFC form of `text`, which must be well-formed UTF-8.
std::string to_nfc(std::string_view text);

}  // namespace llm
