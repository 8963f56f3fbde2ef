#include "text/bpe.h"

#include <span>
#include <utility>

#include "text/merger.h"
#include "text/word_symbols.h"

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
/// the token, if nothing merges across the border between them before that.
///
/// All merges inside the parts come in the order of their ranks, as each one's own parts come
/// before it. So at any time one token ends the left part and one begins the right part, and these
/// two meet until the next merge that takes one of them. Here time runs backwards.
bool Bpe::is_whole_by_splits(int32_t id) const {
  constexpr size_t kMaxBytes = 256;  // as deep as this calls itself
  const size_t num_bytes = vocabulary_->bytes_of(id).size();
  const MergeTable::Split split = rules_.split_of(id);
  if (split.rank == MergeTable::kNoRank || num_bytes > kMaxBytes) return num_bytes == 1;
  for (const int32_t part : {split.left, split.right}) {
    const Whole known = whole_[part].load(std::memory_order_relaxed);
    const Whole whole = known == Whole::kUnknown ? find_out_whether_whole(part) : known;
    const uint32_t rank = rules_.split_of(part).rank;
    if (whole != Whole::kBySplits || (rank != MergeTable::kNoRank && rank >= split.rank)) {
      return false;
    }
  }
  int32_t left = split.left;
  int32_t right = split.right;
  while (true) {
    const MergeTable::Split of_left = rules_.split_of(left);
    const MergeTable::Split of_right = rules_.split_of(right);
    const bool left_has_parts = of_left.rank != MergeTable::kNoRank;
    const bool right_has_parts = of_right.rank != MergeTable::kNoRank;
    if (!left_has_parts && !right_has_parts) return true;
    // (Of two merges of the same rank the left one comes first.)
    const bool left_is_newer = left_has_parts && (!right_has_parts || of_left.rank > of_right.rank);
    if (left_is_newer) {
      left = of_left.right;
    } else {
      right = of_right.left;
    }
    if (rules_.find(left, right).rank <= (left_is_newer ? of_left.rank : of_right.rank))
      return false;
  }
}

void Bpe::Encoder::prepare_long(Word& word) {
  word.key = ShortWordTable::kNoKey;
  word.place = 0;
  if (!word.may_be_cached()) return;
  word.hash = LongWordTable::hash_of(word.bytes);
  cache_->others.prefetch(word.hash);
}

/// Says that append_missing(word) comes soon.
inline void Bpe::Encoder::prefetch_missing(Word& word) const {
  if (!word.is_short()) return;
  const ShortBytes bytes = ShortWordTable::bytes_of(word.key);
  word.hash = LongWordTable::hash_of(bytes);
  cache_->others.prefetch(word.hash);
  bpe_.vocabulary_->prefetch_home(bpe_.vocabulary_->home_of(bytes));
}

void Bpe::Encoder::resolve_words() {
  std::array<uint8_t, kBatch> missing;  // words that the cache of short ones doesn't know
  size_t num_missing = 0;
  for (size_t i = 0; i < num_words_; ++i) {
    const bool known = cache_->short_words.find(words_[i].key, words_[i].place, tokens_[i]);
    missing[num_missing] = static_cast<uint8_t>(i);
    num_missing += known ? 0 : 1;
  }
  for (size_t i = 0; i < num_missing; ++i) prefetch_missing(words_[missing[i]]);
  for (size_t i = 0; i < num_missing; ++i) {
    const Word& word = words_[missing[i]];
    if (word.may_be_cached()) cache_->others.prefetch_found(word.hash);
  }
  size_t begin = 0;
  for (size_t i = 0; i < num_missing; ++i) {
    append_known(begin, missing[i]);
    append_missing(words_[missing[i]]);
    begin = missing[i] + size_t{1};
  }
  append_known(begin, num_words_);
  num_words_ = 0;
}

/// Appends tokens_ from `begin` to `end`.
inline void Bpe::Encoder::append_known(size_t begin, size_t end) {
  std::array<int32_t, kBatch * ShortWordTable::kMaxTokens> ids;
  int32_t* out = ids.data();
  for (size_t i = begin; i < end; ++i) {
    std::copy(tokens_[i].ids.begin(), tokens_[i].ids.end(), out);
    out += tokens_[i].count();
  }
  ids_.insert(ids_.end(), ids.data(), out);
}

void Bpe::Encoder::append_missing(const Word& word) {
  if (!word.may_be_cached()) return append_encoded(word.bytes);
  const size_t begin = ids_.size();
  append_cached(word);
  if (!word.is_short()) return;
  const auto tokens = std::span(ids_).subspan(begin);
  const bool fits = !tokens.empty() && tokens.size() <= ShortWordTable::kMaxTokens;
  if (fits) cache_->short_words.add(word.key, tokens);
}

void Bpe::Encoder::append_cached(const Word& word) {
  if (word.is_short()) {
    const int32_t token = word.bytes.size() <= Vocabulary::kMaxShortToken
                              ? bpe_.vocabulary_->find(ShortWordTable::bytes_of(word.key))
                              : bpe_.vocabulary_->find(word.bytes);
    const bool whole =
        token != kNoToken && (bpe_.merges_to_itself(token) || bpe_.options_.ignore_merges);
    if (whole) return ids_.push_back(token);
  }
  const std::span<const int32_t> cached = cache_->others.find(word.bytes, word.hash);
  ids_.insert(ids_.end(), cached.begin(), cached.end());
  if (!cached.empty()) return;
  const size_t begin = ids_.size();
  append_encoded(word.bytes);
  const auto tokens = std::span(ids_).subspan(begin);
  if (!tokens.empty()) cache_->others.add(word.bytes, word.hash, tokens);
}

/// Cuts the piece where no merge can reach across, and encodes the parts.
void Bpe::Encoder::append_encoded(std::string_view piece) {
  if (bpe_.options_.ignore_merges) {
    const int32_t token = bpe_.vocabulary_->find(piece);
    if (token != kNoToken) return ids_.push_back(token);
  }
  WordSymbols symbols(bpe_.rules_, piece);
  for (WordSymbols::Word word; symbols.next(word);) {
    if (word.count > 0) {
      symbols.append_merged(word, ids_);
    } else {
      append_long_word({word.bytes, word.size});
    }
  }
}

void Bpe::Encoder::append_long_word(std::string_view word) {
  const int32_t token = bpe_.vocabulary_->find(word);
  if (token != kNoToken && bpe_.merges_to_itself(token)) return ids_.push_back(token);
  append_merged(bpe_.rules_, word, ids_);
}

}  // namespace llm
