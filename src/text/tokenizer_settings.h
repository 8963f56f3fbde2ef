// What a tokenizer.json says besides its vocabulary and merges: how to normalize, cut and surround
// a text, and the added tokens.
#pragma once

#include <string>

#include "text/tokenizer_file.h"

namespace llm {

/// Reads `settings` (JSON: the file at `path` without model.vocab and model.merges) into `file`,
/// whose vocabulary is there already. Refuses (exit code 2) what it can't follow, naming the key.
void read_tokenizer_settings(const std::string& settings, const std::string& path,
                             TokenizerFile& file);

/// A piece of JSON for a message, cut where it is long.
std::string abridged(std::string json);

}  // namespace llm
