#include "cuda/weight_upload.h"

#include <algorithm>
#include <cstring>

namespace llm {
namespace {

constexpr int64_t kSlotBytes = int64_t{16} << 20;
constexpr int64_t kTaskBytes = int64_t{1} << 20;  // what one thread fills at a time

/// Rounds `count` values to BF16. `from` may be unaligned.
void round_to_bf16(std::byte* to, const std::byte* from, DType dtype, int64_t count) {
  constexpr int64_t kPiece = 1024;
  float values[kPiece];
  for (int64_t first = 0; first < count; first += kPiece) {
    const int64_t n = std::min(kPiece, count - first);
    widen(values, from + first * bits_of(dtype) / 8, dtype, n);
    for (int64_t i = 0; i < n; ++i) {
      const BF16 rounded = to_bf16(values[i]);
      std::memcpy(to + (first + i) * 2, &rounded, sizeof rounded);
    }
  }
}

}  // namespace

void WeightUpload::bf16(std::byte* to, ConstTensor from) {
  copy(to, from.shape.num_elements(), 2, [&](std::byte* buffer, int64_t first, int64_t count) {
    const std::byte* source = from.data + first * bits_of(from.dtype) / 8;
    if (from.dtype == DType::kBF16) {
      std::memcpy(buffer, source, static_cast<size_t>(count) * 2);
    } else {
      round_to_bf16(buffer, source, from.dtype, count);
    }
  });
}

void WeightUpload::f32(std::byte* to, const float* from, int64_t count) {
  copy(to, count, 4, [&](std::byte* buffer, int64_t first, int64_t n) {
    std::memcpy(buffer, from + first, static_cast<size_t>(n) * 4);
  });
}

void WeightUpload::copy(std::byte* to, int64_t count, int64_t element_bytes,
                        const std::function<void(std::byte*, int64_t, int64_t)>& fill) {
  const int64_t per_slot = kSlotBytes / element_bytes;
  const int64_t per_task = kTaskBytes / element_bytes;
  for (int64_t first = 0; first < count; first += per_slot) {
    const int64_t n = std::min(per_slot, count - first);
    Slot& slot = slots_[next_++ % slots_.size()];
    if (!slot.memory) {
      slot.memory = pinned_memory(kSlotBytes);
      slot.copied = make_event();
    }
    LLM_CUDA(cudaEventSynchronize(slot.copied.get()));
    pool_->parallel_for((n + per_task - 1) / per_task, [&](int64_t task, int) {
      const int64_t at = task * per_task;
      fill(slot.memory.get() + at * element_bytes, first + at, std::min(per_task, n - at));
    });
    LLM_CUDA(cudaMemcpyAsync(to + first * element_bytes, slot.memory.get(),
                             static_cast<size_t>(n * element_bytes), cudaMemcpyHostToDevice,
                             stream_.get()));
    LLM_CUDA(cudaEventRecord(slot.copied.get(), stream_.get()));
  }
}

void WeightUpload::finish() {
  LLM_CUDA(cudaStreamSynchronize(stream_.get()));
  slots_ = {};
}

}  // namespace llm
