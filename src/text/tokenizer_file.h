// What a tokenizer.json says, checked and in tables.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pretokenizer.h"
#include "text/vocabulary.h"

namespace llm {

struct TokenizerFile {
  Vocabulary vocabulary;  // model.vocab and the added tokens
  MergeTable merges;
  Bpe::Options bpe_options = {};
  std::vector<AddedToken> added_tokens = {};
  bool nfc = false;
  std::vector<PreTokenizer::Step> pre_tokenizer_steps = {};
  std::vector<int32_t> prefix_ids = {};  // what the post-processor puts before and after a text
  std::vector<int32_t> suffix_ids = {};
};

/// Reads a tokenizer.json of the byte-level BPE family. Refuses (exit code 2), naming file and key,
/// what is malformed and every feature that would change ids or text and isn't supported.
TokenizerFile read_tokenizer_file(const std::filesystem::path& path);

}  // namespace llm
