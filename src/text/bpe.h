// Byte-pair encoding of one piece of text by a ranked list of merges.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "text/merge_rules.h"
#include "text/merge_table.h"
#include "text/short_bytes.h"
#include "text/vocabulary.h"
#include "text/word_cache.h"

namespace llm {

/// May be used from several threads at once.
class Bpe {
 public:
  struct Options {
    bool ignore_merges = false;        // a piece that is a token is never merged
    int32_t unknown_token = kNoToken;  // for each byte without a token; kNoToken: nothing
  };

  /// `vocabulary` outlives this and doesn't change.
  Bpe(const Vocabulary& vocabulary, MergeTable merges, Options options);

  class Encoder;

 private:
  /// Whether merging a token's bytes gives that very token; found out when first needed. (In odd
  /// vocabularies some don't: an earlier merge can break up what a later one needs.)
  enum class Whole : uint8_t {
    kUnknown,
    kNo,
    kYes,
    kBySplits,  // yes, and the last merge of it and of all its parts is what split_of() says
  };

  bool merges_to_itself(int32_t id) const {
    const Whole known = whole_[id].load(std::memory_order_relaxed);
    return (known == Whole::kUnknown ? find_out_whether_whole(id) : known) >= Whole::kYes;
  }
  Whole find_out_whether_whole(int32_t id) const;
  bool is_whole_by_splits(int32_t id) const;

  const Vocabulary* vocabulary_;
  Options options_;
  MergeRules rules_;
  std::unique_ptr<std::atomic<Whole>[]> whole_;  // by id
  std::unique_ptr<WordCachePool> caches_;
};

/// Encodes pieces one after another. For one thread at a time.
///
/// The tables are larger than a CPU's nearest memory, so words are looked up in batches, the lines
/// of memory that they need being asked for in advance.
class Bpe::Encoder {
 public:
  /// Appends to `ids`.
  Encoder(const Bpe& bpe, std::vector<int32_t>& ids) : bpe_(bpe), cache_(*bpe.caches_), ids_(ids) {}

  /// Encodes one piece (well-formed UTF-8, not empty), which stays where it is until finish(). From
  /// its first byte on `readable` bytes can be read. Takes n log n steps at most.
  void add(std::string_view piece, size_t readable) {
    if (num_words_ == kBatch) resolve_words();
    Word& word = words_[num_words_++];
    word.bytes = piece;
    if (!word.is_short()) return prepare_long(word);
    const ShortBytes bytes = readable >= ShortBytes::kMaxLength
                                 ? ShortBytes::of_readable(piece.data(), piece.size())
                                 : ShortBytes::of(piece);
    word.key = ShortWordTable::key_of(bytes);
    word.place = cache_->short_words.place_of(word.key);
    cache_->short_words.prefetch(word.place);
  }

  /// After this all ids are there.
  void finish() { resolve_words(); }

 private:
  static constexpr size_t kBatch = 32;

  struct Word {
    std::string_view bytes;
    ShortWordTable::Key key;  // kNoKey for a long word
    uint32_t place;           // in the cache of short words
    uint32_t hash;            // of a long word, or one that the table of short ones lacks

    bool is_short() const { return bytes.size() <= ShortWordTable::kMaxBytes; }
    bool may_be_cached() const { return bytes.size() <= LongWordTable::kMaxBytes; }
  };

  void prepare_long(Word& word);
  void prefetch_missing(Word& word) const;
  void resolve_words();
  void append_known(size_t begin, size_t end);
  void append_missing(const Word& word);
  void append_cached(const Word& word);
  void append_encoded(std::string_view piece);
  void append_long_word(std::string_view word);

  const Bpe& bpe_;
  WordCachePool::Lease cache_;
  std::vector<int32_t>& ids_;
  std::array<Word, kBatch> words_;
  std::array<ShortWordTable::Tokens, kBatch> tokens_;  // of the words
  size_t num_words_ = 0;
};

}  // namespace llm
