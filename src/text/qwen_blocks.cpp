#include "text/qwen_blocks.h"

#include <array>
#include <cstring>

#include "text/unicode.h"
#include "text/utf8.h"

namespace llm {
namespace {

/// A character's bytes all have its class.
struct Masks {
  uint64_t letters;
  uint64_t numbers;
  uint64_t spaces;
  uint64_t others;
  uint64_t line_breaks;
  uint64_t blanks;
  uint64_t apostrophes;
  uint64_t continuations;
};

/// The low `count` bits, 0 to 64.
uint64_t low_bits(size_t count) { return count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1; }

Masks masks_of(std::string_view text, const TextKernels& kernels) {
  ByteClasses bytes;
  uint64_t valid = ~uint64_t{0};
  if (text.size() >= kBlockBytes) {
    kernels.classify(text.data(), bytes);
  } else {
    char padded[kBlockBytes] = {};
    std::memcpy(padded, text.data(), text.size());
    kernels.classify(padded, bytes);
    valid = low_bits(text.size());
  }
  std::array<uint64_t, 4> by_class{};  // of characters beyond ASCII
  for (uint64_t leads = bytes.other_leads; leads != 0; leads &= leads - 1) {
    const int position = std::countr_zero(leads);
    const CodePoint c = code_point_at(text, static_cast<size_t>(position));
    by_class[static_cast<size_t>(char_class(c.value))] |= low_bits(c.length) << position;
  }
  const uint64_t han = bytes.han_leads | bytes.han_leads << 1 | bytes.han_leads << 2;
  const auto beyond_ascii = [&](CharClass wanted) { return by_class[static_cast<size_t>(wanted)]; };
  Masks masks;
  masks.letters = bytes.letters | han | beyond_ascii(CharClass::kLetter);
  masks.numbers = bytes.digits | beyond_ascii(CharClass::kNumber);
  masks.spaces = bytes.spaces | beyond_ascii(CharClass::kSpace);
  masks.others = valid & ~(masks.letters | masks.numbers | masks.spaces);
  masks.line_breaks = bytes.line_breaks;
  masks.blanks = bytes.blanks;
  masks.apostrophes = bytes.apostrophes;
  masks.continuations = bytes.continuations;
  return masks;
}

/// Each of these characters' first bytes, for characters of up to three bytes given by their last.
uint64_t first_of_last(uint64_t last_bytes, uint64_t continuations) {
  for (int step = 0; step < 2; ++step) {
    last_bytes = (last_bytes & ~continuations) | (last_bytes & continuations) >> 1;
  }
  return last_bytes;
}

/// `firsts` are first bytes of characters: all bytes of these.
uint64_t whole_characters(uint64_t firsts, uint64_t continuations) {
  for (int step = 0; step < 3; ++step) firsts |= firsts << 1 & continuations;
  return firsts;
}

/// Of the runs of white space without a line break that begin at `firsts`, those that a line break
/// doesn't follow.
uint64_t without_line_break_behind(uint64_t firsts, const Masks& masks) {
  const uint64_t inline_spaces = masks.spaces & ~masks.line_breaks;
  // Adding a run's first bit carries to the bit behind the run.
  uint64_t breaks = (inline_spaces + firsts) & ~inline_spaces & masks.line_breaks;
  for (; breaks != 0; breaks &= breaks - 1) {
    const uint64_t before = ~inline_spaces & ((breaks & -breaks) - 1);
    firsts &= ~(uint64_t{1} << (64 - std::countl_zero(before)));
  }
  return firsts;
}

/// Where pieces begin behind contractions. `apostrophes` begin pieces, and letters follow.
uint64_t ends_of_contractions(std::string_view text, uint64_t apostrophes) {
  uint64_t ends = 0;
  for (; apostrophes != 0; apostrophes &= apostrophes - 1) {
    const auto position = static_cast<size_t>(std::countr_zero(apostrophes));
    const size_t length = qwen_scanner::contraction(text.substr(position));
    if (length != 0 && position + length < kBlockBytes) ends |= uint64_t{1} << (position + length);
  }
  return ends;
}

}  // namespace

namespace qwen_blocks {

uint64_t piece_ends(std::string_view text, const TextKernels& kernels) {
  const Masks m = masks_of(text, kernels);
  const uint64_t inline_spaces = m.spaces & ~m.line_breaks;

  // Line breaks behind symbols go with these. The other white space is cut on its own.
  const uint64_t first_breaks = m.line_breaks & m.others << 1;
  const uint64_t symbol_breaks = m.line_breaks & ~(m.line_breaks + first_breaks);
  const uint64_t spaces = m.spaces & ~symbol_breaks;

  // A symbol that isn't the first character of its piece leads no word and is no apostrophe.
  const uint64_t inner_symbols =
      whole_characters(m.others & ~m.continuations & (m.others | m.blanks) << 1, m.continuations);
  const uint64_t leads = inline_spaces | (m.others & ~inner_symbols);

  uint64_t begins = m.numbers & ~m.continuations;
  begins |= m.others & ~((m.others | m.blanks) << 1);
  begins |= m.letters & ~((m.letters | leads) << 1);
  begins |= spaces & ~(spaces << 1);
  // The last character of white space that something follows.
  begins |= first_of_last((m.letters | m.numbers | m.others) >> 1 & inline_spaces, m.continuations);
  if (const uint64_t after_breaks = inline_spaces & (spaces & m.line_breaks) << 1) {
    begins |= without_line_break_behind(after_breaks, m);
  }
  if (const uint64_t apostrophes = m.apostrophes & ~inner_symbols & m.letters >> 1) {
    begins |= ends_of_contractions(text, apostrophes);
  }

  // How the white space at a block's end is cut depends on what follows.
  if (text.size() >= kBlockBytes && m.spaces >> 63 != 0) {
    begins &= low_bits(static_cast<size_t>(65 - std::countl_one(m.spaces)));
  }
  begins &= ~uint64_t{1};
  return text.size() < kBlockBytes ? begins | uint64_t{1} << text.size() : begins;
}

}  // namespace qwen_blocks

}  // namespace llm
