#include "cuda/emu/race/traffic.h"

namespace llm::emu {

void Traffic::add(uintptr_t begin, size_t bytes, uint16_t reads) {
  if (!is_counting_) return;
  for (uintptr_t address = begin; address < begin + bytes; ++address) {
    Byte& byte = pages_[address / kPageBytes][address % kPageBytes];
    byte.touched = true;
    byte.reads = static_cast<uint16_t>(byte.reads + reads);
  }
}

int64_t Traffic::distinct_bytes() const {
  int64_t count = 0;
  for (const auto& [number, page] : pages_) {
    for (const Byte& byte : page) count += byte.touched ? 1 : 0;
  }
  return count;
}

int64_t Traffic::bytes_read(const void* begin, int64_t bytes) const {
  int64_t sum = 0;
  const auto first = reinterpret_cast<uintptr_t>(begin);
  for (uintptr_t address = first; address < first + static_cast<uintptr_t>(bytes); ++address) {
    const auto page = pages_.find(address / kPageBytes);
    if (page != pages_.end()) sum += page->second[address % kPageBytes].reads;
  }
  return sum;
}

}  // namespace llm::emu
