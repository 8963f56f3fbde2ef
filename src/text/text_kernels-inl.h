// The kernels of text_kernels.h for instruction sets that compare many bytes at once. A vector type
// has load(text), and masks of 64 bits over its 64 bytes: beyond_ascii(), equal(byte),
// between(first, last), letters(), at_least(byte).
#pragma once

#include <bit>

#include "text/text_kernels.h"

namespace llm {
namespace {

template <typename Bytes>
void classify(const char* text, ByteClasses& classes) {
  const Bytes bytes = Bytes::load(text);
  classes.letters = bytes.letters();
  classes.digits = bytes.between('0', '9');
  classes.blanks = bytes.equal(' ');
  classes.spaces = bytes.between('\t', '\r') | classes.blanks;
  classes.line_breaks = bytes.equal('\r') | bytes.equal('\n');
  classes.apostrophes = bytes.equal('\'');
  const uint64_t beyond_ascii = bytes.beyond_ascii();
  classes.continuations = 0;
  classes.han_leads = 0;
  classes.other_leads = 0;
  if (beyond_ascii == 0) return;
  classes.continuations = bytes.between(0x80, 0xbf);
  classes.han_leads = bytes.between(0xe5, 0xe9);
  classes.other_leads = beyond_ascii & ~classes.continuations & ~classes.han_leads;
}

/// The bytes are those of well-formed characters up to the first one that the block cuts. Sets
/// `length` to where that one begins.
template <typename Bytes>
bool is_well_formed_block(const Bytes& bytes, size_t& length) {
  const uint64_t continuations = bytes.between(0x80, 0xbf);
  const uint64_t leads_of_2 = bytes.at_least(0xc0);  // or more
  const uint64_t leads_of_3 = bytes.at_least(0xe0);
  const uint64_t leads_of_4 = bytes.at_least(0xf0);
  const uint64_t cut = (leads_of_2 & uint64_t{1} << 63) | (leads_of_3 & uint64_t{3} << 62) |
                       (leads_of_4 & uint64_t{7} << 61);
  length = static_cast<size_t>(std::countr_zero(cut));
  const uint64_t expected = leads_of_2 << 1 | leads_of_3 << 2 | leads_of_4 << 3;
  // Overlong forms, surrogates and values above U+10FFFF: Unicode standard, table 3-7. (Shifting
  // leaves out the pair that the block cuts.)
  const uint64_t from_90 = bytes.at_least(0x90);
  const uint64_t from_a0 = bytes.at_least(0xa0);
  const uint64_t never = bytes.between(0xc0, 0xc1) | bytes.at_least(0xf5);
  const uint64_t ill_pairs =
      (bytes.equal(0xe0) & ~from_a0 >> 1) | (bytes.equal(0xed) & from_a0 >> 1) |
      (bytes.equal(0xf0) & ~from_90 >> 1) | (bytes.equal(0xf4) & from_90 >> 1);
  return ((expected ^ continuations) | never | ill_pairs) == 0;
}

template <typename Bytes>
size_t well_formed_prefix(const char* text, size_t size) {
  size_t done = 0;
  while (done + kBlockBytes <= size) {
    const Bytes bytes = Bytes::load(text + done);
    size_t length = kBlockBytes;
    if (bytes.beyond_ascii() != 0 && !is_well_formed_block(bytes, length)) break;
    done += length;
  }
  return done;
}

template <typename Bytes>
constexpr TextKernels make_text_kernels() {
  return {classify<Bytes>, well_formed_prefix<Bytes>};
}

}  // namespace
}  // namespace llm
