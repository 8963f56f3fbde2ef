// Sizes of memory and files for people.
#pragma once

#include <cstdint>
#include <string>

namespace llm {

/// "1.50 GiB", "12.00 MiB", "100 bytes".
std::string size_text(int64_t bytes);

}  // namespace llm
