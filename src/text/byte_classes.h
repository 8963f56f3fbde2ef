// What each of 64 bytes of a text is, as bit masks: bit i stands for byte i.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_info.h"

namespace llm {

inline constexpr size_t kBlockBytes = 64;

/// ASCII characters have their class here. Those beyond ASCII are looked up by whoever needs it,
/// but for the most frequent Chinese ones, which are letters.
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

/// Classifies kBlockBytes bytes at `text`.
using ByteClassifier = void (*)(const char* text, ByteClasses& classes);

/// The classifier for an instruction set that this build has.
ByteClassifier byte_classifier(Isa isa);

}  // namespace llm
