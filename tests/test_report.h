// What the test program's closing lines are made of.
#pragma once

#include <string_view>

namespace llm {

/// Counts the running test as skipped instead of passed.
void note_skipped(std::string_view name);

/// One line of the closing table: how the lines of a golden file fared.
void note_golden_file(std::string_view file, int passed, int failed, int skipped);

}  // namespace llm
