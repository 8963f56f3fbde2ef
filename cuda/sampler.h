// Sampling on the device: the kernels' arguments, and the way back of what they chose, without
// waiting for it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/samples.h"
#include "cuda/kernels.h"
#include "cuda/memory.h"

namespace llm {

class Sampler {
 public:
  Sampler();

  /// Room for the results of so many rows. What an earlier sample() chose is gone where there
  /// wasn't enough.
  void reserve(int64_t num_rows, cudaStream_t stream);

  /// Queues it for rows of logits[R, V]. input_ids: of the rows' step, on the device.
  void sample(SampleTicket ticket, ConstTensor logits, std::span<const SampleRow> rows,
              const int32_t* input_ids, Queue queue);

  /// What the latest sample() chose, on the device.
  const SampledId* sampled() const { return sampled_; }
  /// What one of the two latest chose. Waits for it.
  std::span<const SampledId> ids(SampleTicket ticket);
  std::span<const GeneratedLogprobs> logprobs(SampleTicket ticket);

 private:
  /// What a sample() needs until it is done and read.
  struct Slot {
    PinnedWorkspace arguments;
    PinnedWorkspace results;  // ids, then RowLogprobs
    Event done;
    std::vector<int64_t> num_top;  // of each row; -1 where no log-probabilities are wanted
    int64_t width = 0;
    std::vector<GeneratedLogprobs> logprobs;
  };

  /// Rows and penalised ids on the device; those of the sample() before, if they are the same.
  const std::byte* upload(Slot& slot, std::span<const SampleRow> rows, Queue queue);

  std::array<Slot, kSampleSlots> slots_;
  std::vector<std::byte> packed_;    // rows, then penalised ids
  std::vector<std::byte> uploaded_;  // the same, of what is on the device
  Workspace arguments_;
  Workspace results_;
  Workspace row_logprobs_;
  Workspace scratch_;
  SampledId* sampled_ = nullptr;
};

}  // namespace llm
