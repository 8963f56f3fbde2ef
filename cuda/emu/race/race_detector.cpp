#include "cuda/emu/race/race_detector.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/emu/device.h"

namespace llm::emu {
namespace {

// A kernel with more than this many different races is wrong enough.
constexpr size_t kMaxReports = 20;

const char* name_of(RaceDetector::Kind kind) {
  switch (kind) {
    case RaceDetector::Kind::kRead:
      return "read";
    case RaceDetector::Kind::kWrite:
      return "write";
    default:
      return "atomic";
  }
}

}  // namespace

RaceDetector race_detector;

Observer* observer() { return &race_detector; }

// ---- Launches and blocks ----

void RaceDetector::begin_launch(const KernelLaunch& launch) {
  kernel_ = launch.name;
  overlaps_predecessor_ = launch.predecessor_may_run;
  first_block_before_ = first_block_;
  first_block_ += num_blocks_;
  num_blocks_ = launch.grid.x * launch.grid.y * launch.grid.z;
  threads_.resize(launch.block.x * launch.block.y * launch.block.z);
  memory_ = &device().memory();
  device_begin_ = reinterpret_cast<uintptr_t>(memory_->begin());
  published_.clear();
  seen_.clear();
}

std::vector<std::string> RaceDetector::end_launch() {
  if (!reports_.empty()) origins_.name_in(reports_);
  return std::exchange(reports_, {});
}

void RaceDetector::begin_block(int64_t block, const SharedArena& arena) {
  arena_ = &arena;
  arena_begin_ = reinterpret_cast<uintptr_t>(arena.begin());
  block_ = first_block_ + static_cast<uint32_t>(block);
  epoch_ = 0;
  std::fill(threads_.begin(), threads_.end(), Thread());
  fenced_before_barrier_.assign(threads_.size(), 0);
  fenced_epoch_ = 0;
  known_.clear();
  visible_.clear();
}

// ---- What orders ----

void RaceDetector::sync_block() {
  ++epoch_;
  for (size_t i = 0; i < threads_.size(); ++i) {
    Thread& thread = threads_[i];
    fenced_before_barrier_[i] =
        std::max(fenced_before_barrier_[i], thread.fenced_lanes[i % kWarpSize]);
    fenced_epoch_ = std::max(fenced_epoch_, thread.fenced_epoch);
    merge(known_, thread.known);
    merge(visible_, thread.visible);
    thread.known.clear();
    thread.visible.clear();
  }
}

void RaceDetector::sync_warp(uint32_t mask) {
  Thread* const warp = &threads_[self->index - self->lane];
  Thread all;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    Thread& thread = warp[lane];
    thread.known_lanes[lane] = thread.clock;
    for (int i = 0; i < kWarpSize; ++i) {
      all.known_lanes[i] = std::max(all.known_lanes[i], thread.known_lanes[i]);
      all.fenced_lanes[i] = std::max(all.fenced_lanes[i], thread.fenced_lanes[i]);
    }
    merge(all.known, thread.known);
    merge(all.visible, thread.visible);
  }
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    Thread& thread = warp[__builtin_ctz(rest)];
    std::copy_n(all.known_lanes, kWarpSize, thread.known_lanes);
    std::copy_n(all.fenced_lanes, kWarpSize, thread.fenced_lanes);
    thread.known = all.known;
    thread.visible = all.visible;
    ++thread.clock;
  }
}

void RaceDetector::fence() {
  Thread& thread = threads_[self->index];
  thread.known_lanes[self->lane] = thread.clock;
  std::copy_n(thread.known_lanes, kWarpSize, thread.fenced_lanes);
  thread.fenced_epoch = epoch_;
  merge(thread.visible, known_);
  merge(thread.visible, thread.known);
  ++thread.clock;
}

/// What an atomic of the running thread tells others of its block's work.
KnownBlock RaceDetector::published_by(const Thread& thread) const {
  KnownBlock known{std::max(fenced_epoch_, thread.fenced_epoch), fenced_before_barrier_};
  const int first = self->index - self->lane;
  for (int i = 0; i < kWarpSize && first + i < static_cast<int>(threads_.size()); ++i) {
    uint32_t& clock = known.clocks[first + i];
    clock = std::max(clock, thread.fenced_lanes[i]);
  }
  return known;
}

void RaceDetector::order_by_atomic(const void* p) {
  Thread& thread = threads_[self->index];
  KnownWork& at_atomic = published_[p];
  merge(thread.known, at_atomic);
  merge(at_atomic, known_);
  merge(at_atomic, thread.known);
  at_atomic[block_].merge(published_by(thread));
  ++thread.clock;
}

bool RaceDetector::is_ordered(const Access& before) const {
  if (before.block < first_block_) {
    const bool overlapped = overlaps_predecessor_ && before.block >= first_block_before_;
    return !overlapped || self->waited_for_predecessor;
  }
  const Thread& thread = threads_[self->index];
  if (before.block == block_) {
    if (before.thread == self->index || before.epoch < epoch_) return true;
    const int lane = before.thread % kWarpSize;
    const bool same_warp = before.thread / kWarpSize == self->index / kWarpSize;
    if (same_warp && before.clock <= thread.known_lanes[lane]) return true;
  }
  const bool is_atomic = before.is_atomic;  // all agree on the order of what changes one place
  for (const KnownWork* work :
       {is_atomic ? &known_ : &visible_, is_atomic ? &thread.known : &thread.visible}) {
    const auto found = work->find(before.block);
    if (found != work->end() && found->second.holds(before.thread, before.epoch, before.clock)) {
      return true;
    }
  }
  return false;
}

// ---- Accesses ----

Access RaceDetector::make_access(Kind kind, uint32_t origin) const {
  Access now;
  now.block = block_;
  now.thread = static_cast<uint16_t>(self->index);
  now.is_atomic = kind == Kind::kAtomic;
  now.epoch = static_cast<uint16_t>(epoch_);
  now.clock = threads_[self->index].clock;
  now.origin = origin;
  return now;
}

void RaceDetector::start_copy(const void* shared, const void* global, size_t bytes, Place place) {
  const uint32_t origin = origins_.of(place);
  access(shared, AsyncCopies::kCopyBytes, Kind::kWrite, origin);
  if (bytes == 0 || !memory_->is_device_address(global)) return;
  check_bounds(global, bytes, Kind::kRead, origin, false);
  Access issue = make_access(Kind::kRead, origin);
  issue.bytes = 3;
  const auto from = reinterpret_cast<uintptr_t>(global);
  traffic_.read(from, bytes);
  CopySource* source = &sources_[arena_->offset_of(shared) / AccessHistory::kCellBytes];
  for (size_t i = 0; i < bytes; i += AccessHistory::kCellBytes) {
    const Access& writer = history_.cell(from + i).writer;
    *source++ = {from + i, issue, writer, writer.exists() && !is_ordered(writer)};
  }
}

/// Someone reads bytes that were copied: now the copy has read them from device memory.
void RaceDetector::use_copied(CopySource& source) {
  Cell& cell = history_.cell(source.address);
  const Access& writer = cell.writer;
  const bool is_new = writer.clock != source.writer.clock || writer.block != source.writer.block ||
                      writer.thread != source.writer.thread;
  const bool was_overwritten = is_new && writer.block == block_ &&
                               writer.thread != source.issue.thread &&
                               writer.epoch <= source.issue.epoch;
  if (source.is_racing) {
    report_race(source.writer, true, source.issue, Kind::kRead, source.address);
  } else if (was_overwritten) {
    report_race(writer, true, source.issue, Kind::kRead, source.address);
  }
  remember_reader(cell, source.issue);
  source.issue.block = 0;
}

void RaceDetector::access_watched(const void* p, size_t bytes, Kind kind, uint32_t origin) {
  const bool is_shared = arena_->contains(p);
  check_bounds(p, bytes, kind, origin, is_shared);

  Access now = make_access(kind, origin);
  const auto begin = reinterpret_cast<uintptr_t>(p);
  const uintptr_t end = begin + bytes;
  if (!is_shared) {
    kind == Kind::kRead ? traffic_.read(begin, bytes) : traffic_.write(begin, bytes);
  }
  for (uintptr_t cell = begin & ~(AccessHistory::kCellBytes - 1); cell < end;
       cell += AccessHistory::kCellBytes) {
    now.bytes = static_cast<uint16_t>((cell >= begin ? 1 : 0) | (cell + 1 < end ? 2 : 0));
    access_cell(cell, now, kind, is_shared);
  }
}

void RaceDetector::access_cell(uintptr_t address, Access now, Kind kind, bool is_shared) {
  Cell& cell = history_.cell(address);
  // The arena serves one block after the other.
  const auto of_another_block = [&](const Access& a) { return is_shared && a.block != block_; };
  if (of_another_block(cell.writer)) cell.writer = {};
  for (Access& reader : cell.readers) {
    if (of_another_block(reader)) reader = {};
  }
  check(cell.writer, true, now, kind, address);
  if (is_shared && kind != Kind::kCopied) {
    const auto* const p = reinterpret_cast<const void*>(address);
    CopySource& source = sources_[arena_->offset_of(p) / AccessHistory::kCellBytes];
    if (source.issue.block == block_ && kind == Kind::kRead) use_copied(source);
    source.issue.block = 0;
  }
  if (kind == Kind::kRead) {
    if (is_shared && (now.bytes & ~cell.writer.written) != 0) {
      report_once("reads shared memory that its block hasn't written", now.origin,
                  reinterpret_cast<const void*>(address));
    }
    remember_reader(cell, now);
    return;
  }
  for (const Access& reader : cell.readers) check(reader, false, now, kind, address);
  now.written = static_cast<uint16_t>(cell.writer.written | now.bytes);
  cell.writer = now;
  cell.readers[0] = {};
  cell.readers[1] = {};
}

void RaceDetector::remember_reader(Cell& cell, const Access& now) {
  for (Access& reader : cell.readers) {
    if (!reader.exists() || is_ordered(reader)) {
      reader = now;
      return;
    }
  }
  cell.readers[1] = now;
}

void RaceDetector::check(const Access& before, bool before_writes, const Access& now, Kind kind,
                         uintptr_t address) {
  if (!before.exists() || (before.bytes & now.bytes) == 0) return;
  if (before.is_atomic && now.is_atomic) return;
  if (is_ordered(before)) return;
  report_race(before, before_writes, now, kind, address);
}

void RaceDetector::check_bounds(const void* p, size_t bytes, Kind kind, uint32_t origin,
                                bool is_shared) {
  if (is_shared) {
    if (arena_->holds(p, bytes)) return;
    report_once(fmt::format("{} of {} bytes outside every shared array", name_of(kind), bytes),
                origin, p);
    return;
  }
  if (memory_->holds(p, bytes)) return;
  report_once(fmt::format("{} of {} bytes outside every device allocation", name_of(kind), bytes),
              origin, p);
}

// ---- Reports ----

void RaceDetector::report_race(const Access& before, bool before_writes, const Access& now,
                               Kind kind, uintptr_t address) {
  const char* const before_kind = before.is_atomic ? "atomic" : (before_writes ? "write" : "read");
  if (reports_.size() >= kMaxReports ||
      !seen_.insert({before_kind, before.origin, now.origin}).second) {
    return;
  }
  const bool same_block = before.block == block_;
  const char* const distance =
      before.block < first_block_ ? "the launch before, which this one didn't wait for"
      : !same_block               ? "another block"
      : before.thread / kWarpSize == now.thread / kWarpSize ? "the same warp"
                                                            : "another warp of the block";
  reports_.push_back(
      fmt::format("kernel {}: race: {} at {} by thread {} of block {}, {} at {} by thread {} of "
                  "{}, at {}",
                  kernel_, name_of(kind), Origins::mark(now.origin), now.thread,
                  block_ - first_block_, before_kind, Origins::mark(before.origin), before.thread,
                  distance, place_of(reinterpret_cast<const void*>(address))));
}

std::string RaceDetector::place_of(const void* p) const {
  return arena_->contains(p) ? arena_->describe(p) : memory_->describe(p);
}

void RaceDetector::report_once(const std::string& what, uint32_t origin, const void* p) {
  if (reports_.size() >= kMaxReports || !seen_.insert({what, origin, 0}).second) return;
  reports_.push_back(fmt::format("kernel {}: thread {} of block {} at {}: {}, at {}", kernel_,
                                 self->index, block_ - first_block_, Origins::mark(origin), what,
                                 place_of(p)));
}

}  // namespace llm::emu
