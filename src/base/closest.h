// "Did you mean ...?"
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

/// The candidate that `word` is most likely a misspelling of, or nothing when none is near: at most
/// one change (a letter added, left out, replaced, or two neighbours swapped; capitals don't count)
/// for every three letters, or else the only candidate that `word` is the beginning of.
std::optional<std::string> closest(std::string_view word,
                                   const std::vector<std::string>& candidates);

}  // namespace llm
