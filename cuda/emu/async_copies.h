// cp.async of one thread: copies into shared memory that become visible at a wait.
#pragma once

#include <cstddef>
#include <vector>

namespace llm::emu {

class AsyncCopies {
 public:
  /// Late: the target reads 0xff until the wait, which finds a missing or too weak one. Early: the
  /// copy happens at once, which finds a buffer that is overwritten while still in use.
  void reset(bool late);

  /// Copies `bytes` of 16 and zeros the rest.
  void start(void* shared, const void* global, int bytes);
  void commit();
  /// Finishes all but the `pending` latest groups.
  void wait(int pending);

 private:
  struct Copy {
    void* shared;
    const void* global;
    int bytes;
    int group;
  };
  bool late_ = true;
  int group_ = 0;  // the one that is open
  std::vector<Copy> unfinished_;
};

}  // namespace llm::emu
