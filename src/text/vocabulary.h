// The tokens of a vocabulary: bytes by id, and id by bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/huge_page_allocator.h"
#include "text/short_bytes.h"

namespace llm {

/// Id of no token.
inline constexpr int32_t kNoToken = -1;

/// Ids are at most this less one, so that no file makes us allocate without bound.
inline constexpr int32_t kMaxTokenIds = 1 << 22;

class Vocabulary {
 public:
  /// Tokens of up to this many bytes are found by find(ShortBytes).
  static constexpr size_t kMaxShortToken = 12;

  /// Adds a token that find() will return. False, and nothing is done, if the id has a token or
  /// the bytes have an id. 0 <= id < kMaxTokenIds.
  bool add(int32_t id, std::string_view bytes);

  /// Adds a token that only bytes_of() knows: encoding never yields it. False if the id has one.
  bool add_unfindable(int32_t id, std::string_view bytes);

  /// The id of the token with exactly these bytes, or kNoToken.
  int32_t find(std::string_view bytes) const {
    return bytes.size() <= kMaxShortToken ? find(ShortBytes::of(bytes)) : find_long(bytes);
  }

  /// The same for bytes.length <= kMaxShortToken.
  int32_t find(const ShortBytes& bytes) const { return find_from(home_of(bytes), bytes); }

  /// The same in two steps: what home_of() gives may be prefetched, and goes to find_from().
  size_t home_of(const ShortBytes& bytes) const { return bytes.hash(short_bits_); }
  void prefetch_home(size_t home) const { __builtin_prefetch(&short_slots_[home]); }
  int32_t find_from(size_t home, const ShortBytes& bytes) const {
    return static_cast<int32_t>(short_slots_[short_slot_from(home, bytes)].id_and_length &
                                kIdMask) -
           1;
  }

  /// find(bytes), which is quick if the answer is `expected`.
  int32_t find(std::string_view bytes, int32_t expected) const {
    const bool right = has(expected) && tokens_[expected].findable && bytes_of(expected) == bytes;
    return right ? expected : find(bytes);
  }

  /// Says that find(bytes) comes soon.
  void prefetch(std::string_view bytes) const {
    if (bytes.size() <= kMaxShortToken) prefetch_home(home_of(ShortBytes::of(bytes)));
  }

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
  static constexpr int kLengthShift = 28;
  static constexpr uint32_t kIdMask = (1u << kLengthShift) - 1;

  struct Token {
    size_t begin = 0;  // in bytes_
    uint32_t length = kAbsent;
    bool findable = false;
  };
  /// A place of the open-addressing table of short tokens, whose bytes it holds: to find one, a
  /// single line of memory is read.
  struct ShortSlot {
    uint64_t low = 0;
    uint32_t high = 0;
    uint32_t id_and_length = 0;  // id + 1, and the length from kLengthShift on; 0 if free
  };
  /// The same for the others. The hash spares most comparisons.
  struct LongSlot {
    uint32_t hash = 0;
    int32_t id = kNoToken;
  };

  /// The slot with these bytes, or the free one where they belong.
  size_t short_slot_from(size_t home, const ShortBytes& bytes) const {
    const size_t mask = short_slots_.size() - 1;
    for (size_t place = home;; place = (place + 1) & mask) {
      const ShortSlot& slot = short_slots_[place];
      const bool same = slot.low == bytes.low && slot.high == static_cast<uint32_t>(bytes.high) &&
                        slot.id_and_length >> kLengthShift == bytes.length;
      if (same || slot.id_and_length == 0) return place;
    }
  }
  int32_t find_long(std::string_view bytes) const;
  size_t long_slot_for(std::string_view bytes, uint32_t hash) const;
  bool add_short(int32_t id, std::string_view bytes);
  bool add_long(int32_t id, std::string_view bytes);
  void grow_short();
  void grow_long();

  std::string bytes_;
  std::vector<Token> tokens_;
  // Both tables: a power of two, at most 3/4 full.
  int short_bits_ = 10;
  HugePageVector<ShortSlot> short_slots_ = HugePageVector<ShortSlot>(1024);
  std::vector<LongSlot> long_slots_ = std::vector<LongSlot>(1024);
  size_t num_short_ = 0;
  size_t num_long_ = 0;
};

}  // namespace llm
