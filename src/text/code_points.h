// Counting code points, and the few character classes that Python's str methods use.
#pragma once

#include <cstddef>
#include <string_view>

#include "text/utf8.h"

namespace llm {

/// Byte position of the code point before `pos` (pos > 0) in well-formed text.
size_t previous_code_point(std::string_view text, size_t pos);

size_t count_code_points(std::string_view text);

/// Byte offset of the first ill-formed part, or npos when all is well-formed UTF-8.
size_t find_ill_formed(std::string_view text);

/// str.isspace() of Python: Unicode White_Space and U+001C..U+001F.
bool is_python_space(char32_t c);

/// str.isprintable() of Python for assigned characters: no controls, format characters, surrogates,
/// private use, line separators or spaces other than U+0020.
bool is_python_printable(char32_t c);

/// Simple case mapping for ASCII, Latin, Greek, Cyrillic and Armenian; other code points stay.
char32_t to_upper(char32_t c);
char32_t to_lower(char32_t c);

/// str.isalpha() and str.isalnum() of Python, by a newer Unicode version.
bool is_alphabetic(char32_t c);
bool is_alphanumeric(char32_t c);

/// Has a case, in the scripts of to_upper().
bool is_cased(char32_t c);

}  // namespace llm
