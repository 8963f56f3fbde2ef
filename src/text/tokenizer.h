// A Hugging Face `tokenizer.json` of the byte-level BPE family: text to ids and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"

namespace llm {

/// Immutable once loaded; may be used from several threads at once.
class Tokenizer {
 public:
  /// Reads a tokenizer.json. Refuses (exit code 2) a file it can't read or a feature it doesn't
  /// support, naming file and key.
  static Tokenizer load(const std::filesystem::path& tokenizer_json);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Ids of `text`, which must be valid UTF-8. No token is added that the text doesn't contain.
  /// `spans` are ascending and disjoint.
  std::vector<int32_t> encode(std::string_view text, AddedTokens recognised = AddedTokens::kAll,
                              std::span<const TextSpan> spans = {}) const;

  /// The same for a text that is a whole prompt by itself: with what the file's post-processor puts
  /// around it (a token for the text's begin or end), as the reference does. A rendered chat
  /// template writes such tokens itself.
  std::vector<int32_t> encode_prompt(std::string_view text,
                                     AddedTokens recognised = AddedTokens::kAll) const;

  /// Text of `ids`: all bytes joined, then each maximal ill-formed part becomes one U+FFFD. Ids
  /// without a token give nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

  /// Raw bytes that the id stands for; empty if there is no such token. Not always valid UTF-8.
  std::string_view bytes_of(int32_t id) const;

  /// The id of an added token or of the vocabulary entry with exactly these bytes.
  std::optional<int32_t> id_of(std::string_view token) const;

  bool has_token(int32_t id) const;
  bool is_special(int32_t id) const;

  /// One more than the largest id with a token.
  int32_t num_ids() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Turns a stream of ids into text without ever emitting half a character, and without holding
/// back a whole one.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  /// Text that is certain after one more id; may be empty.
  std::string push(int32_t id);
  /// What is still held back at the end, ill-formed parts as U+FFFD.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string pending_;  // an incomplete but so far well-formed UTF-8 sequence, at most 3 bytes
};

}  // namespace llm
