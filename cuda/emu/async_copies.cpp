#include "cuda/emu/async_copies.h"

#include <cstring>

namespace llm::emu {
namespace {

constexpr int kCopyBytes = 16;

void copy(void* shared, const void* global, int bytes) {
  std::byte data[kCopyBytes] = {};
  if (bytes > 0) std::memcpy(data, global, static_cast<size_t>(bytes));
  std::memcpy(shared, data, kCopyBytes);
}

}  // namespace

void AsyncCopies::reset(bool late) {
  late_ = late;
  group_ = 0;
  unfinished_.clear();
}

void AsyncCopies::start(void* shared, const void* global, int bytes) {
  if (!late_) {
    copy(shared, global, bytes);
    return;
  }
  std::memset(shared, 0xff, kCopyBytes);
  unfinished_.push_back({shared, global, bytes, group_});
}

void AsyncCopies::commit() { ++group_; }

void AsyncCopies::wait(int pending) {
  const int first_pending = group_ - pending;
  size_t kept = 0;
  for (const Copy& c : unfinished_) {
    if (c.group < first_pending) {
      copy(c.shared, c.global, c.bytes);
    } else {
      unfinished_[kept++] = c;
    }
  }
  unfinished_.resize(kept);
}

}  // namespace llm::emu
