#include "cuda/emu/async_copies.h"

namespace llm::emu {
void AsyncCopies::copy(const Copy& c) {
  std::byte data[kCopyBytes] = {};
  if (c.bytes > 0) std::memcpy(data, c.global, static_cast<size_t>(c.bytes));
  std::memcpy(c.shared, data, kCopyBytes);
}

void AsyncCopies::reset(bool late) {
  late_ = late;
  group_ = 0;
  unfinished_.clear();
}

void AsyncCopies::start(void* shared, const void* global, int bytes, Place place) {
  const Copy c{shared, global, bytes, group_, place};
  if (!late_) {
    copy(c);
    return;
  }
  std::memset(shared, 0xff, kCopyBytes);
  unfinished_.push_back(c);
}

void AsyncCopies::commit() { ++group_; }

}  // namespace llm::emu
