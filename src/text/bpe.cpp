#include "text/bpe.h"

#include <utility>

namespace llm {

Bpe::Bpe(const Vocabulary& vocabulary, MergeTable merges, Options options)
    : vocabulary_(&vocabulary),
      merges_(std::move(merges)),
      options_(options),
      whole_(std::make_unique<std::atomic<Whole>[]>(vocabulary.num_ids())),
      caches_(std::make_unique<WordCachePool>()) {
  bool all_have_tokens = true;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const int32_t id = vocabulary.find({&c, 1});
    all_have_tokens &= id != kNoToken;
    byte_tokens_[byte] = id != kNoToken ? id : options.unknown_token;
  }
  // A byte that is left out lets tokens meet that the text keeps apart.
  if (all_have_tokens) cuts_.emplace(vocabulary);
}

bool Bpe::find_out_whether_whole(int32_t id) const {
  std::vector<int32_t> ids;
  append_merged(merges_, byte_tokens_, vocabulary_->bytes_of(id), ids);
  const bool whole = ids.size() == 1 && ids[0] == id;
  whole_[id].store(whole ? Whole::kYes : Whole::kNo, std::memory_order_relaxed);
  return whole;
}

/// A piece that isn't known to be a token, cut where no merge can reach across.
void Bpe::Encoder::encode_words(std::string_view piece, std::vector<int32_t>& ids) const {
  if (bpe_.options_.ignore_merges) {
    if (const int32_t id = bpe_.vocabulary_->find(piece); id != kNoToken) {
      ids.push_back(id);
      return;
    }
  }
  while (!piece.empty()) {
    const size_t length = bpe_.cuts_ ? bpe_.cuts_->first_word(piece) : piece.size();
    encode_word(piece.substr(0, length), ids);
    piece.remove_prefix(length);
  }
}

void Bpe::Encoder::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  const int32_t id = bpe_.vocabulary_->find(word);
  if (id != kNoToken && bpe_.merges_to_itself(id)) {
    ids.push_back(id);
    return;
  }
  if (word.size() > WordCache::kMaxBytes) {
    append_merged(bpe_.merges_, bpe_.byte_tokens_, word, ids);
    return;
  }
  const ShortBytes key = ShortBytes::of(word);
  if (const std::span<const int32_t> known = cache_->find(key); !known.empty()) {
    ids.insert(ids.end(), known.begin(), known.end());
    return;
  }
  const size_t begin = ids.size();
  append_merged(bpe_.merges_, bpe_.byte_tokens_, word, ids);
  cache_->add(key, std::span(ids).subspan(begin));
}

}  // namespace llm
