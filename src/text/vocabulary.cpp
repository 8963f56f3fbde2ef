#include "text/vocabulary.h"

#include <cstring>
#include <utility>

#include "base/error.h"

namespace llm {
namespace {

constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd

uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * kMultiplier;
  return hash ^ hash >> 32;
}

uint32_t hash_of(std::string_view bytes) {
  uint64_t hash = bytes.size();
  while (bytes.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    hash = mixed(hash, word);
    bytes.remove_prefix(8);
  }
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    word |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << 8 * i;
  }
  return static_cast<uint32_t>(mixed(hash, word));
}

}  // namespace

size_t Vocabulary::long_slot_for(std::string_view bytes, uint32_t hash) const {
  const size_t mask = long_slots_.size() - 1;
  size_t place = hash & mask;
  while (long_slots_[place].id != kNoToken &&
         (long_slots_[place].hash != hash || bytes_of(long_slots_[place].id) != bytes)) {
    place = (place + 1) & mask;
  }
  return place;
}

void Vocabulary::grow_short() {
  ++short_bits_;
  const auto old = std::exchange(short_slots_, HugePageVector<ShortSlot>(short_slots_.size() * 2));
  for (const ShortSlot& slot : old) {
    if (slot.id_and_length == 0) continue;
    const ShortBytes bytes{slot.low, slot.high, slot.id_and_length >> kLengthShift};
    short_slots_[short_slot_from(home_of(bytes), bytes)] = slot;
  }
}

void Vocabulary::grow_long() {
  const auto old = std::exchange(long_slots_, std::vector<LongSlot>(long_slots_.size() * 2));
  for (const LongSlot& slot : old) {
    if (slot.id != kNoToken) long_slots_[long_slot_for(bytes_of(slot.id), slot.hash)] = slot;
  }
}

bool Vocabulary::add(int32_t id, std::string_view bytes) {
  const bool is_short = bytes.size() <= kMaxShortToken;
  if (!(is_short ? add_short(id, bytes) : add_long(id, bytes))) return false;
  tokens_[id].findable = true;
  return true;
}

bool Vocabulary::add_short(int32_t id, std::string_view bytes) {
  if (num_short_ + 1 > short_slots_.size() / 4 * 3) grow_short();
  const ShortBytes key = ShortBytes::of(bytes);
  ShortSlot& slot = short_slots_[short_slot_from(home_of(key), key)];
  if (slot.id_and_length != 0 || !add_unfindable(id, bytes)) return false;
  slot = {key.low, static_cast<uint32_t>(key.high),
          static_cast<uint32_t>(id + 1) | key.length << kLengthShift};
  ++num_short_;
  return true;
}

bool Vocabulary::add_long(int32_t id, std::string_view bytes) {
  if (num_long_ + 1 > long_slots_.size() / 4 * 3) grow_long();
  const uint32_t hash = hash_of(bytes);
  LongSlot& slot = long_slots_[long_slot_for(bytes, hash)];
  if (slot.id != kNoToken || !add_unfindable(id, bytes)) return false;
  slot = {hash, id};
  ++num_long_;
  return true;
}

bool Vocabulary::add_unfindable(int32_t id, std::string_view bytes) {
  LLM_CHECK(id >= 0 && id < kMaxTokenIds, "id {}", id);
  if (has(id)) return false;
  if (id >= num_ids()) tokens_.resize(static_cast<size_t>(id) + 1);
  tokens_[id] = {bytes_.size(), static_cast<uint32_t>(bytes.size()), false};
  bytes_.append(bytes);
  return true;
}

int32_t Vocabulary::find_long(std::string_view bytes) const {
  return long_slots_[long_slot_for(bytes, hash_of(bytes))].id;
}

}  // namespace llm
