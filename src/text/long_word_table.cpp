#include "text/long_word_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace llm {
namespace {

/// Both halves of the product.
uint64_t folded_product(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t eight_at(const char* bytes) {
  uint64_t eight;
  std::memcpy(&eight, bytes, sizeof eight);
  return eight;
}

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd

uint64_t mixed(uint64_t hash, uint64_t low, uint64_t high) {
  constexpr uint64_t kOther = 0xc2b2ae3d27d4eb4f;  // another odd number without a pattern
  return folded_product(low ^ kOther, high ^ hash);
}

uint32_t finished(uint64_t hash) { return static_cast<uint32_t>(hash * kGolden >> 32); }

}  // namespace

uint32_t LongWordTable::hash_of(const ShortBytes& word) {
  return finished(mixed(word.length * kGolden, word.low, word.high));
}

uint32_t LongWordTable::hash_of(std::string_view word) {
  constexpr size_t kStep = 16;
  if (word.size() <= kStep) return hash_of(ShortBytes::of(word));
  uint64_t hash = word.size() * kGolden;
  const auto take = [&](const char* bytes) {
    hash = mixed(hash, eight_at(bytes), eight_at(bytes + 8));
  };
  for (size_t i = 0; i + kStep < word.size(); i += kStep) take(word.data() + i);
  // The last step goes over some bytes for a second time.
  take(word.data() + word.size() - kStep);
  return finished(hash);
}

std::span<const int32_t> LongWordTable::find(std::string_view word, uint32_t hash) const {
  for (const Slot& slot : sets_[set_of(hash)].slots) {
    if (slot.hash != hash || slot.record == 0) continue;
    const uint32_t* record = &store_[slot.record];
    const size_t length = record[0] & 0xffff;
    const size_t num_tokens = record[0] >> 16;
    if (length != word.size() || std::memcmp(record + 1 + num_tokens, word.data(), length) != 0) {
      continue;
    }
    return {reinterpret_cast<const int32_t*>(record + 1), num_tokens};
  }
  return {};
}

void LongWordTable::add(std::string_view word, uint32_t hash, std::span<const int32_t> tokens) {
  const size_t byte_numbers = (word.size() + sizeof(uint32_t) - 1) / sizeof(uint32_t);
  const size_t size = 1 + tokens.size() + byte_numbers;
  if (store_.size() + size > kMaxStore) clear();
  if (store_.size() + size > store_.capacity()) {
    store_.reserve(std::clamp(store_.capacity() * 4, kFirstStore, kMaxStore));
  }
  if (++num_added_ > kWays * sets_.size() / 2 && bits_ < kMaxBits) grow();
  const size_t record = store_.size();
  insert({hash, static_cast<uint32_t>(record)});
  store_.resize(record + size);
  store_[record] = static_cast<uint32_t>(word.size() | tokens.size() << 16);
  std::copy(tokens.begin(), tokens.end(), store_.begin() + static_cast<ptrdiff_t>(record) + 1);
  std::memcpy(&store_[record + 1 + tokens.size()], word.data(), word.size());
}

void LongWordTable::insert(Slot slot) {
  auto& slots = sets_[set_of(slot.hash)].slots;
  const auto free =
      std::find_if(slots.begin(), slots.end(), [](const Slot& s) { return s.record == 0; });
  (free != slots.end() ? *free : slots[slot.hash % kWays]) = slot;
}

void LongWordTable::grow() {
  bits_ += 2;
  const auto old = std::exchange(sets_, HugePageVector<Set>(size_t{1} << bits_));
  for (const Set& set : old) {
    for (const Slot& slot : set.slots) {
      if (slot.record != 0) insert(slot);
    }
  }
}

void LongWordTable::clear() {
  store_.resize(1);
  num_added_ = 0;
  std::fill(sets_.begin(), sets_.end(), Set());
}

}  // namespace llm
