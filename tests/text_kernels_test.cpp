// Kernels over many bytes of a text: every instruction set beside the portable code.
#include "text/text_kernels.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_info.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace llm {
namespace {

using Random = std::mt19937;

/// Bytes of well-formed characters at the beginning, one character at a time.
size_t well_formed(std::string_view text) {
  size_t n = 0;
  while (n < text.size()) {
    const Utf8Part part = first_utf8_part(text.substr(n));
    if (part.kind != Utf8Part::Kind::kCharacter) break;
    n += part.length;
  }
  return n;
}

/// What the kernels promise of their well-formed prefix.
void check_prefix(std::string_view text) {
  const size_t expected = well_formed(text);
  for (const Isa isa : supported_isas()) {
    const size_t found = text_kernels(isa).well_formed_prefix(text.data(), text.size());
    CAPTURE(name_of(isa));
    CAPTURE(text);
    REQUIRE(found <= expected);
    REQUIRE((found == text.size() || (text[found] & 0xc0) != 0x80 || found == expected));
    if (isa != Isa::kGeneric) REQUIRE(expected - found < kBlockBytes);
  }
  REQUIRE(is_valid_utf8(text) == (expected == text.size()));
}

std::string random_characters(Random& random, size_t length) {
  // The ends of the ranges of lengths, and around the surrogates.
  const std::vector<char32_t> characters = {0,      'a',    0x7f,    0x80,    0x7ff,   0x800,
                                            0xfff,  0x1000, 0x4e2d,  0x5000,  0x9fff,  0xd7ff,
                                            0xe000, 0xffff, 0x10000, 0x3ffff, 0x40000, 0x10ffff};
  const char32_t often = characters[random() % characters.size()];
  std::string text;
  while (text.size() < length) {
    append_utf8(text, random() % 2 == 0 ? often : characters[random() % characters.size()]);
  }
  return text;
}

}  // namespace

TEST_CASE("blocks of bytes have the same classes with every instruction set") {
  Random random(1);
  std::string bytes(1024, '\0');
  for (int round = 0; round < 50; ++round) {
    for (char& byte : bytes) byte = static_cast<char>(random() >> (round % 2 == 0 ? 0 : 25));
    for (size_t offset = 0; offset + kBlockBytes <= bytes.size(); ++offset) {
      ByteClasses expected;
      text_kernels(Isa::kGeneric).classify(bytes.data() + offset, expected);
      for (const Isa isa : supported_isas()) {
        ByteClasses found;
        text_kernels(isa).classify(bytes.data() + offset, found);
        CAPTURE(name_of(isa));
        REQUIRE(found == expected);
      }
    }
  }
}

TEST_CASE("UTF-8 is checked alike with every instruction set") {
  Random random(2);
  for (int round = 0; round < 3000; ++round) {
    std::string text = random_characters(random, random() % 300);
    check_prefix(text);
    if (text.empty()) continue;
    for (int change = 0; change < 8; ++change) {
      std::string changed = text;
      const size_t at = random() % changed.size();
      switch (random() % 3) {
        case 0:
          changed[at] = static_cast<char>(random());
          break;
        case 1:
          changed.erase(at, 1);
          break;
        default:
          changed.resize(at);
      }
      check_prefix(changed);
    }
  }
}

TEST_CASE("every pair of bytes is judged alike, at each place of a block") {
  for (int first = 0x80; first < 0x100; ++first) {
    for (int second = 0; second < 0x100; ++second) {
      std::string text(3 * kBlockBytes, 'x');
      const size_t at = static_cast<size_t>(first * 256 + second) % (kBlockBytes + 3) + 30;
      text[at] = static_cast<char>(first);
      text[at + 1] = static_cast<char>(second);
      check_prefix(text);
      text[at + 2] = '\xbf';
      check_prefix(text);
      text[at + 3] = '\x80';
      check_prefix(text);
    }
  }
}

TEST_CASE("a text that isn't NFC is never taken for one, wherever it changes") {
  for (const std::string& mark : {std::string("\u0301"), std::string("\u0340"),
                                  std::string("\u1161"), std::string("\uf900")}) {
    for (const std::string& filler : {std::string("a"), std::string("\u5b57")}) {
      std::string before;
      for (size_t count = 0; count < 150; ++count) {
        const std::string text = before + mark + "b" + filler;
        CAPTURE(text);
        REQUIRE_FALSE(is_surely_nfc(text));
        REQUIRE(is_surely_nfc(before));
        before += filler;
      }
    }
  }
}

}  // namespace llm
