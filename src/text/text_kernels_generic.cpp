#include <array>

#include "text/text_kernels.h"

namespace llm {
namespace {

/// The top bit of byte k says whether the byte is in class k: 0 letters, 1 digits, 2 spaces, 3 line
/// breaks, 4 continuations, 5 leads of Chinese characters, 6 other leads. (So few bytes are blanks
/// or apostrophes alone that 7 is for both.)
constexpr std::array<uint64_t, 256> kClassBits = [] {
  std::array<uint64_t, 256> bits{};
  for (int c = 0; c < 256; ++c) {
    const auto add = [&](int k, bool is) { bits[c] |= is ? uint64_t{0x80} << 8 * k : 0; };
    add(0, (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'));
    add(1, c >= '0' && c <= '9');
    add(2, c == ' ' || (c >= '\t' && c <= '\r'));
    add(3, c == '\r' || c == '\n');
    add(4, c >= 0x80 && c < 0xc0);
    add(5, c >= 0xe5 && c <= 0xe9);
    add(6, c >= 0xc0 && !(c >= 0xe5 && c <= 0xe9));
    add(7, c == ' ' || c == '\'');
  }
  return bits;
}();

void classify(const char* text, ByteClasses& classes) {
  uint64_t masks[8] = {};
  for (size_t i = 0; i < kBlockBytes; i += 8) {
    // In byte k, one bit for each of eight bytes of text.
    uint64_t bits = 0;
    for (size_t j = 0; j < 8; ++j) {
      bits = (bits >> 1 & 0x7f7f7f7f7f7f7f7f) | kClassBits[static_cast<unsigned char>(text[i + j])];
    }
    for (size_t k = 0; k < 8; ++k) masks[k] |= (bits >> 8 * k & 0xff) << i;
  }
  classes = {.letters = masks[0],
             .digits = masks[1],
             .spaces = masks[2],
             .line_breaks = masks[3],
             .blanks = masks[7] & masks[2],
             .apostrophes = masks[7] & ~masks[2],
             .continuations = masks[4],
             .han_leads = masks[5],
             .other_leads = masks[6]};
}

/// One character at a time is as fast.
size_t well_formed_prefix(const char*, size_t) { return 0; }

}  // namespace

extern constinit const TextKernels kTextKernelsGeneric = {classify, well_formed_prefix};

}  // namespace llm
