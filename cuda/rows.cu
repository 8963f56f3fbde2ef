// Kernels over rows of hidden states. All are bound by memory or by the launch itself.
//
//   embed     hidden[t, i] = table[ids[t], i]                       reads 2, writes 4 bytes/element
//             ids that the step before has chosen are taken from where it left them
//   rms_norm  out[t, i] = bf16(x[i] / sqrt(mean(x^2) + eps) * weight[i])    reads 4 (twice, the
//             second time from L1), writes 2 bytes/element
//   silu_mul  out[t, i] = bf16(silu(gate[i]) * up[i])                reads 8, writes 2
//   bytes/element add_bias  out[t, i] += bias[i]                                   reads 4, writes
//   4 bytes/element
//
// rms_norm: one block of 256 threads a row, thread t elements 4 t + 1024 j (rms_norm.cuh).
// The others: grid (columns / 1024, rows), one thread 4 elements of a row; rows beyond what a grid
// has are taken in turns. add_bias, whose width may be odd, has one thread an element.
#include "cuda/kernels.h"
#include "cuda/rms_norm.cuh"

namespace llm {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxGridRows = 65535;  // the limit of grid.y

/// Columns that one thread handles.
template <int kWidth>
__device__ __forceinline__ int first_column() {
  return kWidth * static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
}

__global__ void __launch_bounds__(kThreads)
    embed_kernel(float* hidden, const bf16* table, InputIds ids, int num_tokens, int width) {
  ptx::let_successor_start();
  ptx::wait_for_predecessor();
  const int i = first_column<4>();
  if (i >= width) return;
  for (int t = blockIdx.y; t < num_tokens; t += gridDim.y) {
    const int32_t given = ids.given[t];
    const int32_t id = given < 0 ? ids.sampled[~given].id : given;
    if (i == 0) ids.known[t] = id;
    const bf16* row = table + int64_t{id} * width;
    const uint2 pairs = *reinterpret_cast<const uint2*>(row + i);
    const float2 a = unpack_bf16(pairs.x);
    const float2 b = unpack_bf16(pairs.y);
    *reinterpret_cast<float4*>(hidden + int64_t{t} * width + i) = {a.x, a.y, b.x, b.y};
  }
}

__global__ void __launch_bounds__(kNormThreads)
    rms_norm_kernel(bf16* out, NormedRows in, int width) {
  LLM_SHARED(float, warp_sums, [1][kNormWarps]);
  ptx::let_successor_start();
  ptx::wait_for_predecessor();
  const int index[1] = {in.row_indices ? in.row_indices[blockIdx.x] : static_cast<int>(blockIdx.x)};
  const float* row = in.hidden + int64_t{index[0]} * width;
  bf16* to = out + int64_t{blockIdx.x} * width;

  sum_squares<1, 4>(warp_sums, in.hidden, index, 1, width);
  __syncthreads();
  const float scale = rms_scale(warp_sums[0], width, in.eps);
  for (int i = 4 * static_cast<int>(threadIdx.x); i < width; i += 4 * kNormThreads) {
    const float4 x = *reinterpret_cast<const float4*>(row + i);
    const float4 weight = *reinterpret_cast<const float4*>(in.weight + i);
    *reinterpret_cast<uint2*>(to + i) = normed(x, scale, weight);
  }
}

__global__ void __launch_bounds__(kThreads)
    silu_mul_kernel(bf16* out, const float* gate_up, int num_rows, int width) {
  ptx::let_successor_start();
  ptx::wait_for_predecessor();
  const int i = first_column<4>();
  if (i >= width) return;
  for (int t = blockIdx.y; t < num_rows; t += gridDim.y) {
    const float* row = gate_up + int64_t{t} * 2 * width;
    const float4 gate = *reinterpret_cast<const float4*>(row + i);
    const float4 up = *reinterpret_cast<const float4*>(row + width + i);
    *reinterpret_cast<uint2*>(out + int64_t{t} * width + i) = {
        pack_bf16(silu(gate.x) * up.x, silu(gate.y) * up.y),
        pack_bf16(silu(gate.z) * up.z, silu(gate.w) * up.w)};
  }
}

__global__ void __launch_bounds__(kThreads)
    add_bias_kernel(float* out, const float* bias, int num_rows, int n) {
  ptx::let_successor_start();
  ptx::wait_for_predecessor();
  const int i = first_column<1>();
  if (i >= n) return;
  for (int t = blockIdx.y; t < num_rows; t += gridDim.y) out[int64_t{t} * n + i] += bias[i];
}

/// Threads of `elements` elements of a row each.
LaunchConfig over_rows(int num_rows, int width, int elements, Queue queue) {
  LaunchConfig config;
  config.grid =
      dim3(ceil_div(width, elements * kThreads), num_rows < kMaxGridRows ? num_rows : kMaxGridRows);
  config.block = kThreads;
  config.stream = queue.stream;
  config.overlaps_predecessor = queue.overlaps;
  return config;
}

/// Whether there is anything to do; refuses what the kernels can't serve.
bool check_rows(const char* launcher, int num_rows, int width, int multiple) {
  if (num_rows < 0 || width < 0 || width % multiple != 0) {
    check_cuda(cudaErrorInvalidValue, launcher);
  }
  return num_rows > 0 && width > 0;
}

}  // namespace

cudaError_t kernel_image_status() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(embed_kernel));
}

void launch_embed(float* hidden, const bf16* table, const InputIds& ids, int num_tokens, int width,
                  Queue queue) {
  if (!check_rows("launch_embed: width", num_tokens, width, 8)) return;
  LLM_LAUNCH(over_rows(num_tokens, width, 4, queue), embed_kernel, hidden, table, ids, num_tokens,
             width);
}

void launch_rms_norm(bf16* out, const NormedRows& in, int num_rows, int width, Queue queue) {
  if (!check_rows("launch_rms_norm: width", num_rows, width, 8)) return;
  LaunchConfig config;
  config.grid = num_rows;
  config.block = kNormThreads;
  config.stream = queue.stream;
  config.overlaps_predecessor = queue.overlaps;
  LLM_LAUNCH(config, rms_norm_kernel, out, in, width);
}

void launch_silu_mul(bf16* out, const float* gate_up, int num_rows, int width, Queue queue) {
  if (!check_rows("launch_silu_mul: width", num_rows, width, 8)) return;
  LLM_LAUNCH(over_rows(num_rows, width, 4, queue), silu_mul_kernel, out, gate_up, num_rows, width);
}

void launch_add_bias(float* out, const float* bias, int num_rows, int n, Queue queue) {
  if (!check_rows("launch_add_bias: n", num_rows, n, 1)) return;
  LLM_LAUNCH(over_rows(num_rows, n, 1, queue), add_bias_kernel, out, bias, num_rows, n);
}

}  // namespace llm
