// Files of the source tree that are part of the program.
#pragma once

#include <optional>
#include <string_view>

namespace llm {

/// The bytes of a file that is compiled in, by its path from the top of the source tree
/// ("models.txt"); nothing for any other.
std::optional<std::string_view> embedded_file(std::string_view path);

}  // namespace llm
