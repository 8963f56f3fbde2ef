#include "cuda/emu/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "cuda/emu/sanitizer.h"

namespace llm::emu {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

// Redzones of a sanitizer make frames several times as large.
constexpr size_t kStackBytes = (kAddressSanitizer ? 256 : 64) * 1024;
constexpr size_t kOutermostFrame = 4096;  // at most

size_t guard_bytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/// What follows a jump: the context that was left, unless for good, learns where it stopped.
void note_left(transfer_t from) {
  if (from.data != nullptr) static_cast<Context*>(from.data)->point = from.fctx;
}

}  // namespace

Stack::Stack() {
  void* const p = mmap(nullptr, guard_bytes() + kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<std::byte*>(p);
  mprotect(mapping_, guard_bytes(), PROT_NONE);
}

Stack::~Stack() {
  forget_frames();
  munmap(mapping_, guard_bytes() + kStackBytes);
}

std::byte* Stack::bottom() const { return mapping_ + guard_bytes(); }
size_t Stack::bytes() const { return kStackBytes; }
void Stack::forget_frames() { unpoison(bottom(), kStackBytes); }

Stack* StackPool::take() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<Stack>());
    return all_.back().get();
  }
  Stack* const stack = free_.back();
  free_.pop_back();
  return stack;
}

void StackPool::reclaim() {
  free_.clear();
  for (const auto& stack : all_) {
    stack->forget_frames();
    free_.push_back(stack.get());
  }
}

void prepare(Context& context, Stack& stack, FiberEntry entry) {
  // Whatever ran here before left its outermost frame without returning.
  unpoison(stack.bottom() + stack.bytes() - kOutermostFrame, kOutermostFrame);
  context.stack_bottom = stack.bottom();
  context.stack_bytes = stack.bytes();
  context.fake_stack = nullptr;
  context.point = make_fcontext(stack.bottom() + stack.bytes(), stack.bytes(), entry);
}

void arrive(transfer_t from) {
  note_left(from);
  // The thread's own stack is only known from here.
  Context unknown;
  Context& left = from.data != nullptr ? *static_cast<Context*>(from.data) : unknown;
  finish_switch(nullptr, &left.stack_bottom, &left.stack_bytes);
}

void switch_to(Context& from, Context& to) {
  start_switch(&from.fake_stack, to.stack_bottom, to.stack_bytes);
  note_left(jump_fcontext(to.point, &from));
  const void* bottom = nullptr;
  size_t bytes = 0;
  finish_switch(from.fake_stack, &bottom, &bytes);
}

void leave_to(Context& to) {
  start_switch(nullptr, to.stack_bottom, to.stack_bytes);
  jump_fcontext(to.point, nullptr);
  __builtin_unreachable();
}

}  // namespace llm::emu
