#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_file.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace llm {
namespace {

/// What is recognised where in a text, asked for from the left to the right.
class RecognitionMap {
 public:
  RecognitionMap(AddedTokens everywhere, std::span<const TextSpan> spans)
      : everywhere_(everywhere), spans_(spans) {}

  struct Range {
    AddedTokens least;  // the most that all bytes of the range allow
    bool uniform;       // whether they all allow the same
  };

  /// For a range that begins no earlier than any asked for before.
  Range over(size_t begin, size_t end) {
    while (!spans_.empty() && spans_.front().end <= begin) spans_ = spans_.subspan(1);
    Range range = {everywhere_, true};
    size_t covered = begin;
    AddedTokens most = AddedTokens::kNone;
    for (const TextSpan& span : spans_) {
      if (span.begin >= end) break;
      if (span.begin >= span.end) continue;
      if (span.begin > covered) most = std::min(most, everywhere_);
      const AddedTokens here = std::max(everywhere_, span.recognised);
      range.least = std::max(range.least, here);
      most = std::min(most, here);
      covered = span.end;
    }
    if (covered < end) most = std::min(most, everywhere_);
    range.uniform = most == range.least;
    return range;
  }

 private:
  AddedTokens everywhere_;
  std::span<const TextSpan> spans_;
};

bool allows(AddedTokens recognised, const AddedToken& token) {
  return recognised == AddedTokens::kAll ||
         (recognised == AddedTokens::kNonSpecial && !token.special);
}

}  // namespace

struct Tokenizer::State {
  explicit State(TokenizerFile file)
      : vocabulary(std::move(file.vocabulary)),
        bpe(vocabulary, std::move(file.merges), file.bpe_options),
        added_tokens(std::move(file.added_tokens)),
        pre_tokenizer(std::move(file.scanners)),
        nfc(file.nfc),
        special(static_cast<size_t>(vocabulary.num_ids())) {
    for (const AddedToken& token : added_tokens.tokens()) special[token.id] = token.special;
  }

  /// Ids of text in which no added token is to be found.
  void encode_plain(std::string_view text, std::vector<int32_t>& ids) const {
    std::string normalized;
    if (nfc && !is_surely_nfc(text)) text = normalized = to_nfc(text);
    pre_tokenizer.for_each_piece(text, [&](std::string_view piece) { bpe.encode(piece, ids); });
  }

  /// The added token at `begin`, or null; then `skip` is how far the search moves on.
  const AddedToken* recognise(std::string_view text, size_t begin, RecognitionMap& map,
                              size_t& skip) const;

  Vocabulary vocabulary;
  Bpe bpe;
  AddedTokenFinder added_tokens;
  PreTokenizer pre_tokenizer;
  bool nfc;
  std::vector<bool> special;  // by id
};

const AddedToken* Tokenizer::State::recognise(std::string_view text, size_t begin,
                                              RecognitionMap& map, size_t& skip) const {
  skip = 1;
  size_t limit = text.size() - begin;
  while (const AddedToken* token = added_tokens.longest_at_begin(text.substr(begin, limit))) {
    const size_t length = token->content.size();
    const RecognitionMap::Range range = map.over(begin, begin + length);
    if (allows(range.least, *token)) return token;
    if (range.uniform) {
      // The reference finds the longest token first and then takes it for plain text as a whole.
      skip = length;
      return nullptr;
    }
    // Only a border inside the token forbids it; a shorter one may end before the border.
    limit = length - 1;
  }
  return nullptr;
}

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
  RecognitionMap map(recognised, spans);
  size_t plain_begin = 0;
  size_t at = recognised == AddedTokens::kNone ? text.size() : 0;
  while ((at = state_->added_tokens.next_candidate(text, at)) < text.size()) {
    size_t skip = 0;
    const AddedToken* token = state_->recognise(text, at, map, skip);
    if (token == nullptr) {
      at += skip;
      continue;
    }
    state_->encode_plain(text.substr(plain_begin, at - plain_begin), ids);
    ids.push_back(token->id);
    at += token->content.size();
    plain_begin = at;
  }
  state_->encode_plain(text.substr(plain_begin), ids);
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
  if (const AddedToken* added = state_->added_tokens.find(token)) return added->id;
  const int32_t id = state_->vocabulary.find(token);
  return id == kNoToken ? std::nullopt : std::optional(id);
}

bool Tokenizer::has_token(int32_t id) const { return state_->vocabulary.has(id); }

bool Tokenizer::is_special(int32_t id) const {
  return has_token(id) && state_->special[static_cast<size_t>(id)];
}

int32_t Tokenizer::num_ids() const { return state_->vocabulary.num_ids(); }

}  // namespace llm
