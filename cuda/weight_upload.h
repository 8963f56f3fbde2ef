// Weights from host memory (most often a mapped file) to the device: through a ring of pinned
// buffers, so that reading the file, converting and copying overlap, and the host needs no more
// memory than the ring.
#pragma once

#include <array>
#include <functional>

#include "base/tensor.h"
#include "base/thread_pool.h"
#include "cuda/memory.h"

namespace llm {

class WeightUpload {
 public:
  explicit WeightUpload(ThreadPool& pool) : pool_(&pool), stream_(make_stream()) {}
  /// Without finish(), after an error: copies may still read the ring.
  ~WeightUpload() { cudaStreamSynchronize(stream_.get()); }
  WeightUpload(const WeightUpload&) = delete;
  WeightUpload& operator=(const WeightUpload&) = delete;

  /// Queues the copy of a matrix of F32, F16 or BF16, rounded to BF16; when it returns, `from` may
  /// go.
  void bf16(std::byte* to, ConstTensor from);
  /// The same for float32 values as they are.
  void f32(std::byte* to, const float* from, int64_t count);

  /// Waits for all copies and gives the ring back.
  void finish();

 private:
  struct Slot {
    PinnedMemory memory;
    Event copied;
  };

  /// Fills pinned buffers piece by piece, fill(buffer, first element, count), and copies them.
  void copy(std::byte* to, int64_t count, int64_t element_bytes,
            const std::function<void(std::byte*, int64_t, int64_t)>& fill);

  ThreadPool* pool_;
  Stream stream_;
  std::array<Slot, 4> slots_;
  size_t next_ = 0;
};

}  // namespace llm
