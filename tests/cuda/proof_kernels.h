// Three kernels as the product has them, in small, each with faults to choose from: they prove that
// the emulator runs correct kernels and finds what is wrong in others (proof_test.cpp).
#pragma once

#include "cuda/rt.h"

namespace llm {

using bf16 = __nv_bfloat16;

enum class Fault {
  kNone,
  kMissingBarrier,     // no __syncthreads() between a write and reads of other threads
  kMissingWarpSync,    // no __syncwarp() there
  kShuffleAsWarpSync,  // a shuffle instead, which orders no memory
  kWeakAsyncWait,      // cp.async.wait_group that leaves one group too many
  kBufferOverwrite,    // the next copy starts while the buffer is still read
  kSharedOutOfBounds,
  kGlobalOutOfBounds,
  kNonAtomicUpdate,
  kMissingFence,  // a counter says that results are there before they are
  kFrozenScalar,  // a length by value, where graphs need it in device memory
};

/// out[rows, width] = x / sqrt(mean(x^2) + eps) * weight; *rows_done += rows. Faults: missing
/// barrier, out of bounds (shared, global), non-atomic update.
struct ProofNorm {
  bf16* out = nullptr;
  const float* x = nullptr;       // [rows, width]
  const float* weight = nullptr;  // [width]
  int* rows_done = nullptr;
  int rows = 0;
  int width = 0;
  float eps = 0;
};
void launch_proof_norm(const ProofNorm& args, Fault fault, cudaStream_t stream);

/// out[m, n] = x[m, k] w[n, k]^T, k a multiple of 8. Faults: missing barrier, weak wait, buffer
/// overwrite, out of bounds (shared).
struct ProofGemm {
  float* out = nullptr;
  const bf16* x = nullptr;
  const bf16* w = nullptr;
  int m = 0;
  int n = 0;
  int k = 0;
};
void launch_proof_gemm(const ProofGemm& args, Fault fault, cudaStream_t stream);

inline constexpr int kProofHeadDim = 64;
inline constexpr int kProofSplit = 64;  // keys of one block

/// Attention of one query over `length` keys, in splits that the last one to finish merges:
/// out[heads, 64] = softmax(q k^T) v. Faults: missing warp sync, shuffle as warp sync, non-atomic
/// update, missing fence, frozen scalar.
struct ProofAttention {
  float* out = nullptr;
  const float* q = nullptr;      // [heads, 64], scaled
  const bf16* k = nullptr;       // [heads, capacity, 64]
  const bf16* v = nullptr;       // [heads, capacity, 64]
  const int* length = nullptr;   // on the device; at least 1
  int frozen_length = 0;         // what kFrozenScalar uses instead
  float* partials = nullptr;     // [heads, max_splits, 66]: maximum, sum, values
  unsigned* finished = nullptr;  // [heads], zero; left zero
  int heads = 0;
  int capacity = 0;  // keys; max_splits = capacity / 64
};
void launch_proof_attention(const ProofAttention& args, Fault fault, cudaStream_t stream);

}  // namespace llm
