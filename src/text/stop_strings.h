// Stop strings, matched on the text of an answer as it arrives.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

/// Cuts a stream of text at the first stop string. The match that begins earliest wins; of those
/// that begin at the same place the longest. However the text is cut into pieces, the joined output
/// is the same, and no part of a stop string is ever given out.
class StopStrings {
 public:
  /// Empty strings are ignored.
  explicit StopStrings(std::vector<std::string> stops);

  /// The text that is certain to lie before any stop string. Empty once stopped.
  std::string push(std::string_view text);

  /// A stop string is complete: whatever follows is dropped.
  bool stopped() const { return stopped_; }

  /// The end of the text: what was held back as the possible beginning of a stop string. If one
  /// stop string is complete while a longer one was still possible, stops at it.
  std::string finish();

 private:
  std::string scan(bool at_end);

  std::vector<std::string> stops_;  // longest first
  std::string held_;                // not yet given out
  bool stopped_ = false;
};

}  // namespace llm
