#include "text/bpe.h"

#include <optional>
#include <span>
#include <utility>

#include "text/merger.h"

namespace llm {

Bpe::Bpe(const Vocabulary& vocabulary, MergeTable merges, Options options)
    : vocabulary_(&vocabulary),
      options_(options),
      rules_(vocabulary, std::move(merges), options.unknown_token),
      whole_(std::make_unique<std::atomic<Whole>[]>(vocabulary.num_ids())),
      caches_(std::make_unique<WordCachePool>()) {}

Bpe::Whole Bpe::find_out_whether_whole(int32_t id) const {
  Whole whole = Whole::kBySplits;
  if (!is_whole_by_splits(id)) {
    std::vector<int32_t> ids;
    append_merged(rules_, vocabulary_->bytes_of(id), ids);
    whole = ids.size() == 1 && ids[0] == id ? Whole::kYes : Whole::kNo;
  }
  whole_[id].store(whole, std::memory_order_relaxed);
  return whole;
}

/// A quick look that never says yes wrongly. A token's two parts merge to themselves, and then to
/// the token, if nothing merges across the border between them before that: no token that the left
/// part ends with on its way, with none that the right part begins with.
bool Bpe::is_whole_by_splits(int32_t id) const {
  constexpr size_t kMaxBytes = 256;  // as deep as this calls itself
  const size_t num_bytes = vocabulary_->bytes_of(id).size();
  const MergeTable::Split split = rules_.split_of(id);
  if (split.rank == MergeTable::kNoRank || num_bytes > kMaxBytes) return num_bytes == 1;
  for (const int32_t part : {split.left, split.right}) {
    const Whole known = whole_[part].load(std::memory_order_relaxed);
    const Whole whole = known == Whole::kUnknown ? find_out_whether_whole(part) : known;
    const uint32_t rank = rules_.split_of(part).rank;
    // (A part's own parts come before it, as this was checked for it.)
    if (whole != Whole::kBySplits || (rank != MergeTable::kNoRank && rank >= split.rank)) {
      return false;
    }
  }
  const auto for_each_meeting = [&](auto visit) {
    for (int32_t left = split.left; left != kNoToken; left = rules_.split_of(left).right) {
      for (int32_t right = split.right; right != kNoToken; right = rules_.split_of(right).left) {
        visit(left, right);
      }
    }
  };
  for_each_meeting([&](int32_t left, int32_t right) { rules_.prefetch(left, right); });
  bool undisturbed = true;
  for_each_meeting([&](int32_t left, int32_t right) {
    undisturbed &= rules_.find(left, right).rank >= split.rank;
  });
  return undisturbed;
}

/// A piece, cut where no merge can reach across.
void Bpe::Encoder::add_words(std::string_view piece, size_t readable) {
  const size_t piece_size = piece.size();
  while (!piece.empty()) {
    if (num_words_ == kBatch) resolve_words();
    const size_t length = borders_->first_word(piece);
    Word& word = words_[num_words_];
    word.set(piece.substr(0, length), readable);
    word.is_piece = length == piece_size;
    commit(word);
    piece.remove_prefix(length);
    readable -= length;
  }
}

/// The token that the word is as a whole, or kNoToken.
inline int32_t Bpe::Encoder::token_of(const Word& word) const {
  const int32_t token = word.is_short() ? bpe_.vocabulary_->find_from(word.home, word.head)
                                        : bpe_.vocabulary_->find(word.bytes);
  if (token == kNoToken) return kNoToken;
  const bool taken = bpe_.merges_to_itself(token) || (bpe_.options_.ignore_merges && word.is_piece);
  return taken ? token : kNoToken;
}

void Bpe::Encoder::resolve_words() {
  std::array<uint8_t, kBatch> others;  // words that aren't a token
  size_t num_others = 0;
  for (size_t i = 0; i < num_words_; ++i) {
    tokens_[i] = token_of(words_[i]);
    others[num_others] = static_cast<uint8_t>(i);
    if (tokens_[i] == kNoToken) ++num_others;
  }
  for (size_t i = 0; i < num_others; ++i) {
    const Word& word = words_[others[i]];
    if (word.may_be_cached()) cache_->prefetch(word.key());
  }
  std::array<bool, kBatch> known;
  for (size_t i = 0; i < num_others; ++i) {
    const Word& word = words_[others[i]];
    known[i] = word.may_be_cached() && !cache_->find(word.key()).empty();
    if (!known[i]) prefetch_merges(bpe_.rules_, word.bytes);
  }
  size_t begin = 0;
  for (size_t i = 0; i < num_others; ++i) {
    ids_.insert(ids_.end(), tokens_.begin() + begin, tokens_.begin() + others[i]);
    merge(words_[others[i]], known[i]);
    begin = others[i] + size_t{1};
  }
  ids_.insert(ids_.end(), tokens_.begin() + begin, tokens_.begin() + num_words_);
  num_words_ = 0;
}

void Bpe::Encoder::merge(const Word& word, bool known) {
  if (!word.may_be_cached()) {
    append_merged(bpe_.rules_, word.bytes, ids_);
    return;
  }
  const WordKey key = word.key();
  if (known) {
    // (Another word of this batch may have taken its place.)
    const std::span<const int32_t> tokens = cache_->find(key);
    ids_.insert(ids_.end(), tokens.begin(), tokens.end());
    if (!tokens.empty()) return;
  }
  const size_t begin = ids_.size();
  append_merged(bpe_.rules_, word.bytes, ids_);
  cache_->add(key, std::span(ids_).subspan(begin));
}

}  // namespace llm
