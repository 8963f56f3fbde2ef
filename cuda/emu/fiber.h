// Fibers on Boost.Context: stacks, and switches of about 20 ns.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <memory>
#include <vector>

namespace llm::emu {

/// A fiber's stack, above a page that can't be touched.
class Stack {
 public:
  Stack();
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  std::byte* bottom() const;
  size_t bytes() const;

  /// Makes AddressSanitizer forget frames that were never left.
  void forget_frames();

 private:
  std::byte* mapping_;
};

/// The stacks of one operating-system thread.
class StackPool {
 public:
  Stack* take();
  void give_back(Stack* stack) { free_.push_back(stack); }
  /// Takes all stacks back, whatever ran on them.
  void reclaim();

 private:
  std::vector<std::unique_ptr<Stack>> all_;
  std::vector<Stack*> free_;
};

/// What can be switched to and away from: a fiber, or the operating-system thread's own stack.
struct Context {
  boost::context::detail::fcontext_t point = nullptr;  // where it stopped
  const void* stack_bottom = nullptr;
  size_t stack_bytes = 0;
  void* fake_stack = nullptr;  // AddressSanitizer's
};

using FiberEntry = void (*)(boost::context::detail::transfer_t from);

/// Makes the first switch to `context` call entry(from) on this stack. It must begin with
/// arrive(from) and never return.
void prepare(Context& context, Stack& stack, FiberEntry entry);
void arrive(boost::context::detail::transfer_t from);

/// Runs `to` until something switches back to `from`.
void switch_to(Context& from, Context& to);

/// Runs `to`; the caller never runs again.
[[noreturn]] void leave_to(Context& to);

}  // namespace llm::emu
