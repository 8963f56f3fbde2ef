// The spelling of tokens in a byte-level vocabulary: each byte is one printable character (GPT-2's
// table: printable Latin-1 stands for itself, byte n of the other 68 is U+0100 + its rank).
#pragma once

#include <string>
#include <string_view>

namespace llm {

/// Appends the bytes that `spelling` stands for. A spelling with any character outside the table
/// (or with ill-formed UTF-8) stands for its own bytes; then the result is false.
bool append_bytes_of_spelling(std::string& out, std::string_view spelling);

/// The other way round: the spelling of any bytes.
std::string spelling_of_bytes(std::string_view bytes);

}  // namespace llm
