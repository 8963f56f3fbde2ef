// Matrix products of the CPU backend: y[m, n] = x[m, k] W[n, k]^T, m tokens, n outputs.
//
// THE LAW OF ACCUMULATION. Later kernels and weight types keep it, so that results don't move:
//   every output is ONE chain of float32 accumulation over k in ascending order, for every m,
//   thread count, tiling and position of the output in the matrix;
//     float path (--act f32, F32 and F16 weights, CPUs without BF16 dot products):
//       acc = fma(w[k], x[k], acc), the same on AVX2 and AVX-512; the generic build, which can't
//       count on a fused instruction, rounds the product: acc = acc + w[k] * x[k]
//     BF16 dot path (BF16 weights, --act bf16, AVX-512 BF16):
//       acc = vdpbf16ps(acc, (w[2p], w[2p+1]), (x[2p], x[2p+1])), p ascending
//   outputs lie in the vector lanes, one step of x is broadcast, there is no reduction tree.
//     packed weights (quant/packed_matrix.h), either path:
//       every group of columns is a chain of its own from zero, with code - zero or the E4M3 value
//       as weight, which float and BF16 hold exactly; acc = fma(scale, group, acc), ascending
//   Cutting k into blocks is allowed where the accumulators are kept as float32 in between.
//
// LAYOUT. Plain weights are used where the checkpoint is mapped, row-major and at any alignment:
// a square block (16 rows by 16 words of 32 bits) is transposed in registers. For few rows of x its
// vectors are multiplied at once (direct); for more they go to a panel [steps][32 outputs] in a
// scratch of the thread (L2), which all rows of x then pass. Packed weights
// (quant/packed_matrix.h) are such panels of 16 outputs already.
//
// WHY. scripts/layout_study, 2 cores of an AMD EPYC (Zen 4: 16-lane dot products and FMAs, one a
// cycle), g++ 12.2, November 2026; BF16 weights, 2 threads, plain read bandwidth 36 GB/s, peak 463
// GFLOP/s (BF16 dot). A = row-major with k in the lanes and a reduction per output, B = panels made
// on load, C = the law above:
//                              A           B           C
//   m = 1    GB/s           34 - 40     38 - 44     33 - 39    (no prefetch: A 22 - 33, C 27 - 39)
//   m = 16   % of peak      44 - 51     76 - 80     48 - 63
//   m = 512  % of peak      64 - 78     94 - 97     92 - 95    (float path, 512 bit: 68, 95, 94)
//   W4 g128, m = 1, GB/s    16 - 19     29 - 31                4-bit weights, groups of 128
//   W4 g128, m = 512, %     21 - 37     71 - 90
// Making B from A runs at 9 - 11 GB/s: 0.12 s and 1.2 GB of memory for Qwen3-0.6B. C costs nothing.
// A loses a third of the multiply rate to reductions and register pressure. C gives B's results to
// the bit, starts at once, and pays with the transposes only between about 5 and 64 rows of x.
//
// These kernels, same machine, one thread (236 and 118 GFLOP/s at most), BF16 weights, k / n =
// 1024/4096, 2048/1024, 3072/1024; per cent of a prefetched read of the same bytes, or of the peak:
//   dot path     m = 1: 93, 79, 96 %    m = 4: 105 GFLOP/s    m = 16: 74, 70, 74 %
//                m = 64: 84 %           m = 512: 87, 90, 90 %
//   float path   m = 1: 85, 74 %        m = 512: 90 % (512 bit), 88 % (256 bit)
// The fifth missing at k = 2048, m = 1, comes with rows a multiple of 4 KiB apart, probably because
// the 16 lines of a block then share one set of L1; with 2 threads the study's C still read at 92 %
// of the plain read bandwidth there.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/matmul_kernels.h"
#include "base/tensor.h"
#include "base/thread_pool.h"

namespace llm {

/// The operand x[m, k] in the order that the kernels read, and their scratch memory. Reused from
/// one product to the next; memory grows to the largest.
class PackedRows {
 public:
  /// x[m, k] float32, row-major, rounded to BF16 where act says so. The kernels are those of the
  /// products that follow, the pool at most as large as theirs.
  void pack(ThreadPool& pool, const MatmulKernels& kernels, const float* x, int64_t m, int64_t k,
            ActDType act);

  int64_t m() const { return m_; }
  int64_t k() const { return k_; }
  /// Whether a step is a pair of BF16 values.
  bool pairs() const { return pairs_; }
  /// 32-bit words per row of x.
  int64_t steps() const { return steps_; }
  int64_t num_tiles() const { return num_tiles_; }
  /// First row of a tile; rows are spread evenly, num_tiles() gives m().
  int64_t tile_begin(int64_t tile) const { return m_ * tile / num_tiles_; }
  /// [steps][rows of the tile].
  const uint32_t* tile(int64_t tile) const { return words() + tile_begin(tile) * steps_; }
  /// Scratch of one thread, for one product at a time.
  std::byte* scratch(int thread) const { return scratch_.data() + thread * scratch_bytes_; }
  int64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  uint32_t* words() const { return reinterpret_cast<uint32_t*>(words_.data()); }

  int64_t m_ = 0;
  int64_t k_ = 0;
  int64_t steps_ = 0;
  int64_t num_tiles_ = 0;
  bool pairs_ = false;
  Buffer words_;
  Buffer scratch_;
  int64_t scratch_bytes_ = 0;
};

enum class Epilogue {
  kStore,    // y = x W^T + bias
  kAdd,      // y += x W^T + bias
  kSiluMul,  // y[m, I] = silu(gate) * up; w has the two parts gate and up of I rows each
};

/// y[m, n] with rows ldy floats apart. w.k must be x.k(). One product at a time per PackedRows.
void matmul(ThreadPool& pool, const MatmulKernels& kernels, float* y, int64_t ldy,
            const PackedRows& x, const Linear& w, Epilogue epilogue);

}  // namespace llm
