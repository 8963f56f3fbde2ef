// Text from a model or a file on its way to a terminal.
#pragma once

#include <string>
#include <string_view>

namespace llm {

/// The text without control characters (C0, DEL, C1) other than line ends and tabs, so that a
/// terminal has nothing to obey. The text is well-formed UTF-8 and cut between characters.
std::string strip_controls(std::string_view text);

/// Whether text on that terminal may be dimmed: NO_COLOR isn't set and TERM isn't "dumb".
bool may_style_terminal();

inline constexpr std::string_view kDim = "\x1b[2m";
inline constexpr std::string_view kPlain = "\x1b[0m";

}  // namespace llm
