// The ids of the largest logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace llm {

/// Ranks (draw::rank_of()) of the `most` most probable ids, or of all if there are fewer; the most
/// probable first, the lower id on a tie.
std::vector<uint64_t> most_probable(std::span<const float> logits, size_t most);

}  // namespace llm
