#include "base/log.h"

#include <unistd.h>

#include <algorithm>

#include "base/descriptor_io.h"

namespace llm {
namespace {

/// Bytes of the well-formed UTF-8 sequence that `text` begins with by its lead byte and the number
/// of continuation bytes; 0 if there is none.
size_t sequence_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xc2 && lead < 0xe0 ? 2
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xf0 && lead < 0xf5 ? 4
                                                      : 0;
  if (length > text.size()) return 0;
  const std::string_view rest = text.substr(0, length).substr(std::min<size_t>(1, length));
  const bool continues = std::all_of(rest.begin(), rest.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
  });
  return continues ? length : 0;
}

/// Control characters, but not line ends and tabs: C0, DEL, and C1 (U+0080 to U+009F).
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1)
    return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

}  // namespace

std::string escape_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = sequence_length(text);
    const std::string_view character = text.substr(0, std::max<size_t>(1, length));
    if (length == 0 || is_control(character)) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(character.back()));
    } else {
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

void write_stderr(std::string_view bytes) { write_all(STDERR_FILENO, bytes); }

void Log::write(std::string_view prefix, std::string_view message) {
  std::string line(prefix);
  line += escape_controls(message);
  write_stderr(line += '\n');
}

}  // namespace llm
