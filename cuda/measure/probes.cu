// What only measurements launch.
//
// Streams: block b reads rounds of depth x 256 x 16 bytes, b + i blocks apart; bytes on the way per
// block are 4 KiB x depth, in registers or in shared memory. Chains: one thread a block works.
#include "cuda/device_utils.cuh"
#include "cuda/measure/probes.h"

namespace llm::measure {
namespace {

constexpr int kFillThreads = 256;
constexpr int kMaxFillBlocks = 4096;
constexpr uint32_t kUnlikely = 0x5bd1e995u;  // keeps the compiler from dropping what is read

/// Scrambles an index (two rounds of multiply and xor-shift).
__device__ __forceinline__ uint32_t random_word(uint64_t index, uint32_t seed) {
  uint32_t x = static_cast<uint32_t>(index) ^ static_cast<uint32_t>(index >> 32) * 0x9e3779b9u;
  x = (x ^ seed) * 0x85ebca6bu;
  x = (x ^ x >> 15) * 0x2c1b3c6du;
  x = (x ^ x >> 12) * 0x297a2d39u;
  return x ^ x >> 15;
}

/// In [-1, 1), in steps of 2^-15.
__device__ __forceinline__ float number_of(uint32_t sixteen_bits) {
  return static_cast<float>(static_cast<int>(sixteen_bits) - 32768) * 0x1p-15f;
}

__global__ void fill_kernel(uint32_t* to, int64_t words, Fill fill, uint32_t seed) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += step) {
    const uint32_t x = random_word(static_cast<uint64_t>(i), seed);
    if (fill == Fill::kBF16) {
      to[i] = pack_bf16(number_of(x & 0xffffu), number_of(x >> 16));
    } else if (fill == Fill::kF32) {
      to[i] = __float_as_uint(number_of(x >> 16));
    } else {
      to[i] = (x & 0x00ffffffu) | 0x3c000000u;
    }
  }
}

__device__ __forceinline__ uint32_t folded(const uint4& v) { return v.x ^ v.y ^ v.z ^ v.w; }

template <int kDepth>
__global__ void __launch_bounds__(kReadThreads, 2)
    read_registers_kernel(uint32_t* sink, const uint4* from, int64_t vectors) {
  uint32_t all = 0;
  const int64_t own = int64_t{blockIdx.x} * kDepth * kReadThreads + threadIdx.x;
  const int64_t step = int64_t{gridDim.x} * kDepth * kReadThreads;
  for (int64_t at = own; at < vectors; at += step) {
    uint4 v[kDepth];
#pragma unroll
    for (int i = 0; i < kDepth; ++i) v[i] = ptx::load_streamed(from + at + i * kReadThreads);
#pragma unroll
    for (int i = 0; i < kDepth; ++i) all ^= folded(v[i]);
  }
  if (all == kUnlikely) *sink = all;
}

template <int kDepth>
__global__ void __launch_bounds__(kReadThreads, 2)
    read_shared_kernel(uint32_t* sink, const uint4* from, int64_t vectors) {
  LLM_DYN_SHARED(uint4, ring);  // [kDepth, kReadThreads]: a thread reads only what it has asked for
  uint32_t all = 0;
  const int64_t step = int64_t{gridDim.x} * kReadThreads;
  const int64_t own = int64_t{blockIdx.x} * kReadThreads + threadIdx.x;
  int64_t next = own;
  uint4* const slots = ring + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kDepth; ++i, next += step) {
    if (next < vectors) ptx::cp_async_16(slots + i * kReadThreads, from + next);
    ptx::cp_async_commit();
  }
  int slot = 0;
  for (int64_t at = own; at < vectors; at += step, next += step) {
    ptx::cp_async_wait<kDepth - 1>();
    all ^= folded(slots[slot * kReadThreads]);
    if (next < vectors) ptx::cp_async_16(slots + slot * kReadThreads, from + next);
    ptx::cp_async_commit();
    slot = slot + 1 == kDepth ? 0 : slot + 1;
  }
  if (all == kUnlikely) *sink = all;
}

__global__ void link_kernel(int32_t* to, const int32_t* from) {
  ptx::let_successor_start();
  ptx::wait_for_predecessor();
  if (threadIdx.x == 0) to[blockIdx.x] = from[blockIdx.x] + 1;
}

template <int kDepth>
void read_registers(uint32_t* sink, const std::byte* from, int64_t bytes, int blocks, Queue queue) {
  LaunchConfig config;
  config.grid = static_cast<unsigned>(blocks);
  config.block = kReadThreads;
  config.stream = queue.stream;
  LLM_LAUNCH(config, (read_registers_kernel<kDepth>), sink, reinterpret_cast<const uint4*>(from),
             bytes / 16);
}

template <int kDepth>
void read_shared(uint32_t* sink, const std::byte* from, int64_t bytes, int blocks, Queue queue) {
  LaunchConfig config;
  config.grid = static_cast<unsigned>(blocks);
  config.block = kReadThreads;
  config.shared_bytes = sizeof(uint4) * kDepth * kReadThreads;
  config.stream = queue.stream;
  LLM_LAUNCH(config, (read_shared_kernel<kDepth>), sink, reinterpret_cast<const uint4*>(from),
             bytes / 16);
}

void check_stream(int64_t bytes, int depth, int blocks, const char* launcher) {
  const bool fits = blocks > 0 && bytes > 0 && bytes % read_round_bytes(depth, blocks) == 0;
  if (!fits) check_cuda(cudaErrorInvalidValue, launcher);
}

}  // namespace

void launch_fill(std::byte* to, int64_t bytes, Fill fill, uint32_t seed, Queue queue) {
  const int64_t words = bytes / 4;
  if (words == 0) return;
  const int64_t blocks = ceil_div(words, int64_t{kFillThreads});
  LaunchConfig config;
  config.grid = static_cast<unsigned>(blocks < kMaxFillBlocks ? blocks : kMaxFillBlocks);
  config.block = kFillThreads;
  config.stream = queue.stream;
  LLM_LAUNCH(config, fill_kernel, reinterpret_cast<uint32_t*>(to), words, fill, seed);
}

void launch_read_registers(uint32_t* sink, const std::byte* from, int64_t bytes, int depth,
                           int blocks, Queue queue) {
  check_stream(bytes, depth, blocks, "launch_read_registers: bytes or blocks");
  switch (depth) {
    case 2:
      return read_registers<2>(sink, from, bytes, blocks, queue);
    case 4:
      return read_registers<4>(sink, from, bytes, blocks, queue);
    case 8:
      return read_registers<8>(sink, from, bytes, blocks, queue);
    case 16:
      return read_registers<16>(sink, from, bytes, blocks, queue);
    default:
      check_cuda(cudaErrorInvalidValue, "launch_read_registers: depth");
  }
}

void launch_read_shared(uint32_t* sink, const std::byte* from, int64_t bytes, int depth, int blocks,
                        Queue queue) {
  check_stream(bytes, depth, blocks, "launch_read_shared: bytes or blocks");
  switch (depth) {
    case 8:
      return read_shared<8>(sink, from, bytes, blocks, queue);
    case 16:
      return read_shared<16>(sink, from, bytes, blocks, queue);
    case 24:
      return read_shared<24>(sink, from, bytes, blocks, queue);
    default:
      check_cuda(cudaErrorInvalidValue, "launch_read_shared: depth");
  }
}

void launch_link(int32_t* to, const int32_t* from, int blocks, Queue queue) {
  LaunchConfig config;
  config.grid = static_cast<unsigned>(blocks);
  config.block = kWarpSize;
  config.stream = queue.stream;
  config.overlaps_predecessor = queue.overlaps;
  LLM_LAUNCH(config, link_kernel, to, from);
}

}  // namespace llm::measure
