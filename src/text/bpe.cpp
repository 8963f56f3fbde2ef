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

bool Bpe::find_out_whether_whole(int32_t id) const {
  std::vector<int32_t> ids;
  append_merged(rules_, vocabulary_->bytes_of(id), ids);
  const bool whole = ids.size() == 1 && ids[0] == id;
  whole_[id].store(whole ? Whole::kYes : Whole::kNo, std::memory_order_relaxed);
  return whole;
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
int32_t Bpe::Encoder::token_of(const Word& word) const {
  const int32_t token = word.bytes.size() <= Vocabulary::kMaxShortToken
                            ? bpe_.vocabulary_->find(word.head)
                            : bpe_.vocabulary_->find(word.bytes);
  if (token == kNoToken) return kNoToken;
  const bool taken = (bpe_.options_.ignore_merges && word.is_piece) || bpe_.merges_to_itself(token);
  return taken ? token : kNoToken;
}

void Bpe::Encoder::resolve_words() {
  for (size_t i = 0; i < num_words_; ++i) {
    Word& word = words_[i];
    word.token = token_of(word);
    if (word.token == kNoToken && word.bytes.size() <= WordKey::kMaxBytes) {
      cache_->prefetch(WordKey::of(word.bytes, word.head));
    }
  }
  for (size_t i = 0; i < num_words_; ++i) {
    if (words_[i].token != kNoToken) {
      ids_.push_back(words_[i].token);
    } else {
      merge(words_[i]);
    }
  }
  num_words_ = 0;
}

void Bpe::Encoder::merge(const Word& word) {
  if (word.bytes.size() > WordKey::kMaxBytes) {
    append_merged(bpe_.rules_, word.bytes, ids_);
    return;
  }
  const WordKey key = WordKey::of(word.bytes, word.head);
  if (const std::span<const int32_t> known = cache_->find(key); !known.empty()) {
    ids_.insert(ids_.end(), known.begin(), known.end());
    return;
  }
  const size_t begin = ids_.size();
  append_merged(bpe_.rules_, word.bytes, ids_);
  cache_->add(key, std::span(ids_).subspan(begin));
}

}  // namespace llm
