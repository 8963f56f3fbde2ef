// Golden files of the tokenizer: one JSON object a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "text/tokenizer.h"

namespace llm {

/// Counts matches(line) for each line of a file as a golden file named `label`.
void check_golden_lines(const std::filesystem::path& path, std::string_view label,
                        const std::function<bool(const JsonValue&)>& matches);

/// The same for a file of shared data's goldens.
void check_goldens(std::string_view file, std::string_view label,
                   const std::function<bool(const JsonValue&)>& matches);
inline void check_goldens(std::string_view file,
                          const std::function<bool(const JsonValue&)>& matches) {
  check_goldens(file, file, matches);
}

/// The member `key`, which must be there.
const JsonValue& at(const JsonValue& object, std::string_view key);
std::vector<int32_t> ids_of(const JsonValue& list);

/// Qwen3's tokenizer, loaded once.
const Tokenizer& qwen3_tokenizer();

/// Writes a tokenizer.json into an empty test folder of this name and loads it.
Tokenizer load_tokenizer_text(std::string_view folder, std::string_view json);

}  // namespace llm
