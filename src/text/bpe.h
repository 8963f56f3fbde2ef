// Byte-pair encoding of one piece of text by a ranked list of merges.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "text/merge_table.h"
#include "text/merger.h"
#include "text/safe_cuts.h"
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

  /// Encodes pieces one after another. For one thread at a time.
  class Encoder {
   public:
    explicit Encoder(const Bpe& bpe) : bpe_(bpe), cache_(*bpe.caches_) {}

    /// Appends the ids of one piece (well-formed UTF-8). From its first byte on `readable` bytes
    /// can be read. Takes n log n steps at most.
    void encode(std::string_view piece, size_t readable, std::vector<int32_t>& ids) const;
    void encode(std::string_view piece, std::vector<int32_t>& ids) const {
      encode(piece, piece.size(), ids);
    }

   private:
    void encode_words(std::string_view piece, std::vector<int32_t>& ids) const;
    void encode_word(std::string_view word, std::vector<int32_t>& ids) const;

    const Bpe& bpe_;
    WordCachePool::Lease cache_;
  };

 private:
  /// Whether merging a token's bytes gives that very token; found out when first needed. (In odd
  /// vocabularies some don't: an earlier merge can break up what a later one needs.)
  enum class Whole : uint8_t { kUnknown, kYes, kNo };

  bool merges_to_itself(int32_t id) const {
    const Whole whole = whole_[id].load(std::memory_order_relaxed);
    return whole == Whole::kUnknown ? find_out_whether_whole(id) : whole == Whole::kYes;
  }
  bool find_out_whether_whole(int32_t id) const;

  const Vocabulary* vocabulary_;
  MergeTable merges_;
  Options options_;
  ByteTokens byte_tokens_;
  std::optional<SafeCuts> cuts_;                 // none where bytes lack tokens
  std::unique_ptr<std::atomic<Whole>[]> whole_;  // by id
  std::unique_ptr<WordCachePool> caches_;
};

inline void Bpe::Encoder::encode(std::string_view piece, size_t readable,
                                 std::vector<int32_t>& ids) const {
  if (piece.size() == 1) {
    const int32_t id = bpe_.byte_tokens_[static_cast<unsigned char>(piece[0])];
    if (id != kNoToken) ids.push_back(id);
    return;
  }
  if (piece.size() <= Vocabulary::kMaxShortToken && readable >= ShortBytes::kMaxLength) {
    const int32_t id =
        bpe_.vocabulary_->find(ShortBytes::of_readable(piece.data(), piece.size()));
    if (id != kNoToken && (bpe_.merges_to_itself(id) || bpe_.options_.ignore_merges)) {
      ids.push_back(id);
      return;
    }
  }
  encode_words(piece, ids);
}

}  // namespace llm
