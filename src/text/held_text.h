// What splitters of streamed text hold back until more of it has come.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace llm {

/// Length of the longest end of `text` that is a beginning of `marker`, but not all of it.
inline size_t partial_marker(std::string_view text, std::string_view marker) {
  for (size_t length = std::min(text.size(), marker.size() - 1); length > 0; --length) {
    if (marker.starts_with(text.substr(text.size() - length))) return length;
  }
  return 0;
}

inline size_t size_without_newlines(std::string_view text) {
  const size_t last = text.find_last_not_of('\n');
  return last == std::string_view::npos ? 0 : last + 1;
}

}  // namespace llm
