#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace llm {
namespace {

constexpr int kNumSpellings = 0x100 + 68;
constexpr int16_t kNoByte = -1;

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Tables {
  std::array<char16_t, 256> character_of_byte{};
  std::array<int16_t, kNumSpellings> byte_of_character{};
};

constexpr Tables make_tables() {
  Tables t;
  for (int16_t& byte : t.byte_of_character) byte = kNoByte;
  char16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char16_t c = stands_for_itself(byte) ? static_cast<char16_t>(byte) : next++;
    t.character_of_byte[byte] = c;
    t.byte_of_character[c] = static_cast<int16_t>(byte);
  }
  return t;
}

constexpr Tables kTables = make_tables();

}  // namespace

bool append_bytes_of_spelling(std::string& out, std::string_view spelling) {
  const size_t begin = out.size();
  for (size_t i = 0; i < spelling.size();) {
    if (spelling[i] >= '!' && spelling[i] <= '~') {
      out += spelling[i++];
      continue;
    }
    const Utf8Part part = first_utf8_part(spelling.substr(i));
    const char32_t c = part.kind == Utf8Part::Kind::kCharacter ? code_point_at(spelling, i).value
                                                               : static_cast<char32_t>(-1);
    if (c >= kNumSpellings || kTables.byte_of_character[c] == kNoByte) {
      out.resize(begin);
      out.append(spelling);
      return false;
    }
    out += static_cast<char>(kTables.byte_of_character[c]);
    i += part.length;
  }
  return true;
}

std::string spelling_of_bytes(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    append_utf8(out, kTables.character_of_byte[static_cast<unsigned char>(byte)]);
  }
  return out;
}

}  // namespace llm
