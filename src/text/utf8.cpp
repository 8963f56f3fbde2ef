#include "text/utf8.h"

#include <cstring>

#include "text/text_kernels.h"

namespace llm {
namespace {

/// The well-formed sequences that begin with one byte: their length (0: none), and the bounds of
/// the second byte, which exclude overlong forms, surrogates and values above U+10FFFF. Further
/// bytes are 80..BF. Unicode standard, table 3-7.
struct Lead {
  size_t length;
  unsigned char second_min;
  unsigned char second_max;
};

constexpr Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

/// Bytes at the beginning that are ASCII, in steps of eight.
size_t ascii_prefix(std::string_view text) {
  size_t n = 0;
  while (n + 8 <= text.size()) {
    uint64_t eight;
    std::memcpy(&eight, text.data() + n, 8);
    if (eight & 0x8080808080808080u) break;
    n += 8;
  }
  return n;
}

/// Bytes of a well-formed character of two or three bytes at the beginning, by a quick look at
/// four; 0 for everything else.
size_t common_character(std::string_view text) {
  if (text.size() < 4) return 0;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  if (byte(0) >= 0xe1 && byte(0) < 0xf0 && byte(0) != 0xed)
    return continues(1) && continues(2) ? 3 : 0;
  return byte(0) >= 0xc2 && byte(0) < 0xe0 && continues(1) ? 2 : 0;
}

/// Bytes at the beginning that are well-formed.
size_t valid_prefix(std::string_view text) {
  size_t n = text_kernels().well_formed_prefix(text.data(), text.size());
  while (n < text.size()) {
    if (static_cast<unsigned char>(text[n]) < 0x80) {
      const size_t ascii = ascii_prefix(text.substr(n));
      n += ascii > 0 ? ascii : 1;
      continue;
    }
    if (const size_t length = common_character(text.substr(n))) {
      n += length;
      continue;
    }
    const Utf8Part part = first_utf8_part(text.substr(n));
    if (part.kind != Utf8Part::Kind::kCharacter) break;
    n += part.length;
  }
  return n;
}

}  // namespace

Utf8Part first_utf8_part(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const Lead lead = lead_of(byte(0));
  if (lead.length == 0) return {Utf8Part::Kind::kIllFormed, 1};
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Utf8Part::Kind::kIncomplete, i};
    const unsigned char min = i == 1 ? lead.second_min : 0x80;
    const unsigned char max = i == 1 ? lead.second_max : 0xbf;
    if (byte(i) < min || byte(i) > max) return {Utf8Part::Kind::kIllFormed, i};
  }
  return {Utf8Part::Kind::kCharacter, lead.length};
}

bool is_valid_utf8(std::string_view text) { return valid_prefix(text) == text.size(); }

std::string replace_invalid_utf8(std::string_view text, bool* replaced) {
  if (replaced != nullptr) *replaced = false;
  std::string out;
  out.reserve(text.size());
  while (true) {
    const size_t valid = valid_prefix(text);
    out.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) return out;
    out.append(kReplacementCharacter);
    text.remove_prefix(first_utf8_part(text).length);
    if (replaced != nullptr) *replaced = true;
  }
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto continuation = [&](int shift) {
    out += static_cast<char>(0x80 | (code_point >> shift & 0x3f));
  };
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    out += static_cast<char>(0xc0 | code_point >> 6);
    continuation(0);
  } else if (code_point < 0x10000) {
    out += static_cast<char>(0xe0 | code_point >> 12);
    continuation(6);
    continuation(0);
  } else {
    out += static_cast<char>(0xf0 | code_point >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

}  // namespace llm
