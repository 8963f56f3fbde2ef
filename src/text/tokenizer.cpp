#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/huge_page_allocator.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_file.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace llm {
namespace {

size_t common_prefix(std::string_view a, std::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + limit, b.begin()).first -
                             a.begin());
}

size_t common_suffix(std::string_view a, std::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.rbegin(), a.rbegin() + limit, b.rbegin()).first -
                             a.rbegin());
}

/// The spans inside [begin, end), counted from `begin`.
std::vector<TextSpan> spans_within(std::span<const TextSpan> spans, size_t begin, size_t end) {
  std::vector<TextSpan> inside;
  for (const TextSpan& span : spans) {
    if (span.end <= begin || span.begin >= end) continue;
    inside.push_back(
        {std::max(span.begin, begin) - begin, std::min(span.end, end) - begin, span.recognised});
  }
  return inside;
}

/// Moves the spans to where normalization has taken their text, and what it has joined to that.
void follow_normalization(std::vector<TextSpan>& spans, std::string_view text,
                          std::string_view normalized) {
  size_t end = 0;
  for (TextSpan& span : spans) {
    const size_t before = common_prefix(to_nfc(text.substr(0, span.begin)), normalized);
    const size_t after = common_suffix(to_nfc(text.substr(span.end)), normalized);
    span.begin = std::max(end, before);
    span.end = end = std::max(span.begin, normalized.size() - after);
  }
}

std::vector<AddedToken> tokens_to_find(const TokenizerFile& file, bool normalized) {
  std::vector<AddedToken> tokens;
  for (const AddedToken& token : file.added_tokens) {
    if (token.normalized == normalized) tokens.push_back(token);
  }
  return tokens;
}

/// Bytes that may be read from the beginning of a piece on, which is in the text or a copy.
size_t readable_from(std::string_view piece, std::string_view text) {
  const auto begin = reinterpret_cast<uintptr_t>(text.data());
  const auto at = reinterpret_cast<uintptr_t>(piece.data());
  return at >= begin && at < begin + text.size() ? begin + text.size() - at : piece.size();
}

/// Where a text is cut into blocks that are normalized one by one: behind a line break, before an
/// ASCII character that isn't white space.
size_t end_of_block(std::string_view text) {
  constexpr size_t kMinBytes = 1 << 16;
  for (size_t end = std::min(kMinBytes, text.size()); end < text.size(); ++end) {
    if (text[end - 1] == '\n' && text[end] > ' ' && text[end] <= '~') return end;
  }
  return text.size();
}

}  // namespace

struct Tokenizer::State {
  explicit State(TokenizerFile file)
      : vocabulary(std::move(file.vocabulary)),
        bpe(vocabulary, std::move(file.merges), file.bpe_options),
        raw_tokens(tokens_to_find(file, false)),
        normalized_tokens(tokens_to_find(file, true)),
        pre_tokenizer(std::move(file.pre_tokenizer_steps)),
        nfc(file.nfc),
        prefix_ids(std::move(file.prefix_ids)),
        suffix_ids(std::move(file.suffix_ids)),
        special(static_cast<size_t>(vocabulary.num_ids())) {
    for (const AddedToken& token : file.added_tokens) special[token.id] = token.special;
  }

  /// Ids of text in which no added token is to be found.
  void encode_plain(std::string_view text, std::vector<int32_t>& ids) const {
    PreTokenizer::Copies copies;
    Bpe::Encoder encoder(bpe, ids);
    pre_tokenizer.for_each_piece(text, copies, [&](std::string_view piece) {
      encoder.add(piece, readable_from(piece, text));
    });
    encoder.finish();
  }

  /// Ids of text in which only those added tokens are to be found that the normalized text has.
  void encode_between(std::string_view text, AddedTokens recognised, std::vector<TextSpan> spans,
                      std::vector<int32_t>& ids) const {
    const bool any_tokens = !normalized_tokens.tokens().empty();
    if (!any_tokens && pre_tokenizer.cuts_before_lines()) return encode_by_blocks(text, ids);
    std::string storage;
    if (nfc && !is_surely_nfc(text)) {
      storage = to_nfc(text);
      if (any_tokens) follow_normalization(spans, text, storage);
      text = storage;
    }
    normalized_tokens.split(
        text, recognised, spans,
        [&](size_t begin, size_t end) { encode_plain(text.substr(begin, end - begin), ids); },
        [&](const AddedToken& token) { ids.push_back(token.id); });
  }

  /// One character that isn't normalized is no reason to copy all of a long text.
  void encode_by_blocks(std::string_view text, std::vector<int32_t>& ids) const {
    if (!nfc || is_surely_nfc(text)) return encode_plain(text, ids);
    while (!text.empty()) {
      const std::string_view block = text.substr(0, end_of_block(text));
      if (is_surely_nfc(block)) {
        encode_plain(block, ids);
      } else {
        encode_plain(to_nfc(block), ids);
      }
      text.remove_prefix(block.size());
    }
  }

  Vocabulary vocabulary;
  Bpe bpe;
  AddedTokenFinder raw_tokens;
  AddedTokenFinder normalized_tokens;
  PreTokenizer pre_tokenizer;
  bool nfc;
  std::vector<int32_t> prefix_ids;  // around a whole prompt
  std::vector<int32_t> suffix_ids;
  std::vector<bool> special;  // by id
};

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& tokenizer_json) {
  return Tokenizer(std::make_unique<State>(read_tokenizer_file(tokenizer_json)));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, AddedTokens recognised,
                                       std::span<const TextSpan> spans) const {
  LLM_CHECK(is_valid_utf8(text));
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3);
  prefer_huge_pages(ids.data(), ids.capacity() * sizeof(int32_t));
  const bool any_normalized = !state_->normalized_tokens.tokens().empty();
  state_->raw_tokens.split(
      text, recognised, spans,
      [&](size_t begin, size_t end) {
        std::vector<TextSpan> inside;
        if (any_normalized) inside = spans_within(spans, begin, end);
        state_->encode_between(text.substr(begin, end - begin), recognised, std::move(inside), ids);
      },
      [&](const AddedToken& token) { ids.push_back(token.id); });
  return ids;
}

std::vector<int32_t> Tokenizer::encode_prompt(std::string_view text, AddedTokens recognised) const {
  std::vector<int32_t> ids = encode(text, recognised);
  ids.insert(ids.begin(), state_->prefix_ids.begin(), state_->prefix_ids.end());
  ids.insert(ids.end(), state_->suffix_ids.begin(), state_->suffix_ids.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!skip_special || !is_special(id)) bytes.append(bytes_of(id));
  }
  return replace_invalid_utf8(bytes);
}

std::string_view Tokenizer::bytes_of(int32_t id) const { return state_->vocabulary.bytes_of(id); }

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  for (const AddedTokenFinder* finder : {&state_->raw_tokens, &state_->normalized_tokens}) {
    if (const AddedToken* added = finder->find(token)) return added->id;
  }
  const int32_t id = state_->vocabulary.find(token);
  return id == kNoToken ? std::nullopt : std::optional(id);
}

bool Tokenizer::has_token(int32_t id) const { return state_->vocabulary.has(id); }

bool Tokenizer::is_special(int32_t id) const {
  return has_token(id) && state_->special[static_cast<size_t>(id)];
}

int32_t Tokenizer::num_ids() const { return state_->vocabulary.num_ids(); }

}  // namespace llm
