// What the latest sampling of a step's rows gave, for backends that sample on the host.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/logprobs.h"
#include "backend/sampling.h"
#include "base/tensor.h"
#include "base/thread_pool.h"

namespace llm {

/// Which Backend::sample() it was.
enum class SampleTicket : uint64_t {};

/// One slot for each of the two latest: the one being read, and the one after it.
inline constexpr size_t kSampleSlots = 2;
inline size_t slot_of(SampleTicket ticket) { return static_cast<uint64_t>(ticket) % kSampleSlots; }

class HostSamples {
 public:
  /// sample_row() and logprobs_of() of the rows of logits[R, V], which the host can read.
  void sample(SampleTicket ticket, ConstTensor logits, std::span<const SampleRow> rows,
              ThreadPool& pool);
  /// As if n rows had given id 0.
  void assign(SampleTicket ticket, size_t n);

  std::span<const SampledId> ids(SampleTicket ticket) const { return slots_[slot_of(ticket)].ids; }
  std::span<const GeneratedLogprobs> logprobs(SampleTicket ticket) const {
    return slots_[slot_of(ticket)].logprobs;
  }

 private:
  struct Slot {
    std::vector<SampledId> ids;
    std::vector<GeneratedLogprobs> logprobs;  // empty ones for rows that asked for none
  };
  std::array<Slot, kSampleSlots> slots_;
};

}  // namespace llm
