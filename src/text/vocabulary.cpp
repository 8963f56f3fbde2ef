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

/// The slot with these bytes, or the free one where they belong.
size_t Vocabulary::slot_for(std::string_view bytes, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t place = hash & mask;
  while (slots_[place].id != kNoToken &&
         (slots_[place].hash != hash || bytes_of(slots_[place].id) != bytes)) {
    place = (place + 1) & mask;
  }
  return place;
}

void Vocabulary::grow() {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots_.size() * 2));
  for (const Slot& slot : old) {
    if (slot.id != kNoToken) slots_[slot_for(bytes_of(slot.id), slot.hash)] = slot;
  }
}

bool Vocabulary::add(int32_t id, std::string_view bytes) {
  if (num_findable_ + 1 > slots_.size() / 4 * 3) grow();
  const uint32_t hash = hash_of(bytes);
  const size_t place = slot_for(bytes, hash);
  if (slots_[place].id != kNoToken || !add_unfindable(id, bytes)) return false;
  slots_[place] = {hash, id};
  ++num_findable_;
  return true;
}

bool Vocabulary::add_unfindable(int32_t id, std::string_view bytes) {
  LLM_CHECK(id >= 0 && id < kMaxTokenIds, "id {}", id);
  if (has(id)) return false;
  if (id >= num_ids()) tokens_.resize(static_cast<size_t>(id) + 1);
  tokens_[id] = {bytes_.size(), static_cast<uint32_t>(bytes.size())};
  bytes_.append(bytes);
  return true;
}

int32_t Vocabulary::find(std::string_view bytes) const {
  return slots_[slot_for(bytes, hash_of(bytes))].id;
}

}  // namespace llm
