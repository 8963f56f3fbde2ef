#include "cuda/sampler.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backend/cuda.h"
#include "base/error.h"
#include "cuda/sample_rows.h"

namespace llm {
namespace {

constexpr int64_t kFewestRows = 256;  // that there is room for from the start

template <typename T>
void append(std::vector<std::byte>& packed, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  packed.insert(packed.end(), bytes.begin(), bytes.end());
}

int64_t ids_bytes(size_t rows) { return static_cast<int64_t>(rows * sizeof(SampledId)); }

}  // namespace

Sampler::Sampler() {
  for (Slot& slot : slots_) slot.done = make_event();
}

void Sampler::reserve(int64_t num_rows, cudaStream_t stream) {
  const int64_t rows = std::max(num_rows, kFewestRows);
  sampled_ =
      reinterpret_cast<SampledId*>(results_.reserve(ids_bytes(static_cast<size_t>(rows)), stream));
}

const std::byte* Sampler::upload(Slot& slot, std::span<const SampleRow> rows, Queue queue) {
  std::vector<DeviceSampleRow> device_rows;
  std::vector<IdCount> penalised;
  for (const SampleRow& row : rows) {
    device_rows.push_back(device_sample_row(row, penalised));
    slot.num_top.push_back(device_rows.back().num_top);
  }
  packed_.clear();
  append(packed_, device_rows);
  append(packed_, penalised);
  const int64_t bytes = std::ssize(packed_);
  if (arguments_.size() >= bytes && packed_ == uploaded_) return arguments_.data();
  const int64_t room =
      static_cast<int64_t>(std::bit_ceil(packed_.size()));  // they grow by an id a step
  std::byte* host = slot.arguments.reserve(room);
  std::memcpy(host, packed_.data(), packed_.size());
  std::byte* device = arguments_.reserve(room, queue.stream);
  LLM_CUDA(cudaMemcpyAsync(device, host, packed_.size(), cudaMemcpyHostToDevice, queue.stream));
  uploaded_ = packed_;
  return device;
}

void Sampler::sample(SampleTicket ticket, ConstTensor logits, std::span<const SampleRow> rows,
                     const int32_t* input_ids, Queue queue) {
  Slot& slot = slots_[slot_of(ticket)];
  LLM_CUDA(cudaEventSynchronize(slot.done.get()));  // two samplings ago
  slot.num_top.clear();
  if (rows.empty()) return;
  reserve(std::ssize(rows), queue.stream);
  const std::byte* arguments = upload(slot, rows, queue);
  slot.width = logits.shape[1];
  const bool wants_logprobs =
      std::any_of(slot.num_top.begin(), slot.num_top.end(), [](int64_t n) { return n >= 0; });
  const int64_t logprob_bytes =
      wants_logprobs ? static_cast<int64_t>(rows.size() * sizeof(RowLogprobs)) : 0;
  auto* logprobs =
      reinterpret_cast<RowLogprobs*>(row_logprobs_.reserve(logprob_bytes, queue.stream));

  SampleArgs args;
  args.logits = logits.as<float>();
  args.penalised = reinterpret_cast<const IdCount*>(
      reinterpret_cast<const DeviceSampleRow*>(arguments) + rows.size());
  args.input_ids = input_ids;
  args.width = static_cast<int>(slot.width);
  args.scratch =
      scratch_.reserve(static_cast<int64_t>(sample_scratch_bytes(kCudaSampledAtOnce, args.width)),
                       queue.stream, true);
  for (size_t first = 0; first < rows.size(); first += kCudaSampledAtOnce) {
    args.sampled = sampled_ + first;
    args.rows = reinterpret_cast<const DeviceSampleRow*>(arguments) + first;
    args.num_rows = static_cast<int>(std::min<size_t>(kCudaSampledAtOnce, rows.size() - first));
    launch_sample(args, queue);
    if (wants_logprobs) launch_logprobs(logprobs + first, args, queue);
  }

  const int64_t bytes = ids_bytes(rows.size());
  std::byte* host = slot.results.reserve(bytes + logprob_bytes);
  LLM_CUDA(cudaMemcpyAsync(host, sampled_, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                           queue.stream));
  if (wants_logprobs) {
    LLM_CUDA(cudaMemcpyAsync(host + bytes, logprobs, static_cast<size_t>(logprob_bytes),
                             cudaMemcpyDeviceToHost, queue.stream));
  }
  LLM_CUDA(cudaEventRecord(slot.done.get(), queue.stream));
}

std::span<const SampledId> Sampler::ids(SampleTicket ticket) {
  Slot& slot = slots_[slot_of(ticket)];
  LLM_CUDA(cudaEventSynchronize(slot.done.get()));
  return {reinterpret_cast<const SampledId*>(slot.results.data()), slot.num_top.size()};
}

std::span<const GeneratedLogprobs> Sampler::logprobs(SampleTicket ticket) {
  const std::span<const SampledId> sampled = ids(ticket);
  Slot& slot = slots_[slot_of(ticket)];
  const auto* rows =
      reinterpret_cast<const RowLogprobs*>(slot.results.data() + sampled.size_bytes());
  slot.logprobs.assign(sampled.size(), {});
  for (size_t i = 0; i < sampled.size(); ++i) {
    if (slot.num_top[i] < 0 || sampled[i].fault != LogitFault::kNone) continue;
    slot.logprobs[i] = logprobs_of(rows[i], sampled[i].id, slot.num_top[i], slot.width);
  }
  return slot.logprobs;
}

}  // namespace llm
