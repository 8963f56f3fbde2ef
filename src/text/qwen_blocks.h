// Qwen's split pattern (qwen_scanner.h), matched on 64 bytes at a time by arithmetic on bit masks.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/qwen_scanner.h"
#include "text/text_kernels.h"

namespace llm {

namespace qwen_blocks {

/// Where pieces end in the first kBlockBytes of a non-empty text, bit i for an end before byte i,
/// as far as these bytes tell; a text that is shorter than a block has them all.
uint64_t piece_ends(std::string_view text, const TextKernels& kernels);

}  // namespace qwen_blocks

/// Calls sink(std::string_view piece) for all pieces of `text` (well-formed UTF-8) in order.
template <typename Sink>
void for_each_qwen_piece(std::string_view text, const TextKernels& kernels, Sink&& sink) {
  while (!text.empty()) {
    uint64_t ends = qwen_blocks::piece_ends(text, kernels);
    size_t begin = 0;
    do {
      const bool known = ends != 0;
      const size_t end = known ? static_cast<size_t>(std::countr_zero(ends)) : scan_qwen(text);
      sink(text.substr(begin, end - begin));
      begin = end;
      ends &= ends - 1;
    } while (ends != 0);
    text.remove_prefix(begin);
  }
}

}  // namespace llm
