// cp.async of one thread: copies into shared memory that become visible at a wait.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "cuda/emu/thread.h"

namespace llm::emu {

class AsyncCopies {
 public:
  static constexpr int kCopyBytes = 16;

  /// Late: the target reads 0xff until the wait, which finds a missing or too weak one. Early: the
  /// copy happens at once, which finds a buffer that is overwritten while still in use.
  void reset(bool late);

  /// Copies `bytes` of 16 and zeros the rest.
  void start(void* shared, const void* global, int bytes, Place place);
  void commit();
  /// Finishes all but the `pending` latest groups; then tells of each copy.
  template <typename Finished>
  void wait(int pending, Finished finished) {
    const int first_pending = group_ - pending;
    size_t kept = 0;
    for (const Copy& c : unfinished_) {
      if (c.group < first_pending) {
        copy(c);
        finished(c.shared, c.place);
      } else {
        unfinished_[kept++] = c;
      }
    }
    unfinished_.resize(kept);
  }

 private:
  struct Copy {
    void* shared;
    const void* global;
    int bytes;
    int group;
    Place place;
  };
  static void copy(const Copy& c);

  bool late_ = true;
  int group_ = 0;  // the one that is open
  std::vector<Copy> unfinished_;
};

}  // namespace llm::emu
