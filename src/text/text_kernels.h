// Kernels per instruction set for looking at many bytes of a text at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_info.h"

namespace llm {

inline constexpr size_t kBlockBytes = 64;

/// What each byte of a block is, as bit masks: bit i stands for byte i. ASCII characters have their
/// class here. Those beyond ASCII are looked up by whoever needs it, but for the most frequent
/// Chinese ones, which are letters.
struct ByteClasses {
  uint64_t letters;
  uint64_t digits;
  uint64_t spaces;
  uint64_t line_breaks;  // which are spaces too: \r and \n
  uint64_t blanks;       // which are spaces too: U+0020
  uint64_t apostrophes;
  uint64_t continuations;  // of UTF-8 characters, all bytes but the first
  uint64_t han_leads;      // first bytes of U+5000 to U+9FFF, which are of three bytes
  uint64_t other_leads;    // first bytes of all other characters beyond ASCII

  bool operator==(const ByteClasses&) const = default;
};

struct TextKernels {
  /// Classifies kBlockBytes bytes.
  void (*classify)(const char* text, ByteClasses& classes);
  /// Bytes at the beginning of the text, whole characters, that are found to be well-formed UTF-8.
  /// There may be more of them, but less than a block before the end or before an ill-formed one.
  size_t (*well_formed_prefix)(const char* text, size_t size);
};

/// The kernels of an instruction set that this build has.
const TextKernels& text_kernels(Isa isa);

/// Those of choose_isa().
const TextKernels& text_kernels();

}  // namespace llm
