// The tokens of a vocabulary: bytes by id, and id by bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

/// Id of no token.
inline constexpr int32_t kNoToken = -1;

/// Ids are at most this less one, so that no file makes us allocate without bound.
inline constexpr int32_t kMaxTokenIds = 1 << 22;

class Vocabulary {
 public:
  /// Adds a token that find() will return. False, and nothing is done, if the id has a token or
  /// the bytes have an id. 0 <= id < kMaxTokenIds.
  bool add(int32_t id, std::string_view bytes);

  /// Adds a token that only bytes_of() knows: encoding never yields it. False if the id has one.
  bool add_unfindable(int32_t id, std::string_view bytes);

  /// The id of the token with exactly these bytes, or kNoToken.
  int32_t find(std::string_view bytes) const;

  /// Empty if there is no such token; any id may be asked for.
  std::string_view bytes_of(int32_t id) const {
    return has(id) ? std::string_view(bytes_).substr(tokens_[id].begin, tokens_[id].length)
                   : std::string_view();
  }
  bool has(int32_t id) const { return id >= 0 && id < num_ids() && tokens_[id].length != kAbsent; }

  /// One more than the largest id with a token.
  int32_t num_ids() const { return static_cast<int32_t>(tokens_.size()); }

 private:
  static constexpr uint32_t kAbsent = 0xffffffff;

  struct Token {
    size_t begin = 0;  // in bytes_
    uint32_t length = kAbsent;
  };
  /// A place of the open-addressing table of findable tokens. The hash spares most comparisons.
  struct Slot {
    uint32_t hash = 0;
    int32_t id = kNoToken;
  };

  size_t slot_for(std::string_view bytes, uint32_t hash) const;
  void grow();

  std::string bytes_;
  std::vector<Token> tokens_;
  std::vector<Slot> slots_ = std::vector<Slot>(1024);  // a power of two, at most 3/4 full
  size_t num_findable_ = 0;
};

}  // namespace llm
