// What only measurements launch: random data, streams that only read, chains of nearly empty
// kernels.
#pragma once

#include "cuda/rt.h"

namespace llm::measure {

/// What memory is filled with. Never zeros, which take less power, so that clocks stay higher.
enum class Fill {
  kBF16,      // numbers in [-1, 1)
  kF32,       // the same
  kEightBit,  // random bytes, but every fourth is 0x3c: read as float32 they are small scales
};

/// The next `bytes` from `to` on, both multiples of 4. Depends on the seed and the place alone.
void launch_fill(std::byte* to, int64_t bytes, Fill fill, uint32_t seed, Queue queue);

/// Threads of a block that reads; each has `depth` loads of 16 bytes under way.
inline constexpr int kReadThreads = 256;
/// Bytes that all blocks together read in one round; a stream is a multiple of it.
constexpr int64_t read_round_bytes(int depth, int blocks) {
  return int64_t{16} * kReadThreads * depth * blocks;
}

/// Reads all bytes once, into registers, by ptx::load_streamed(). depth: 2, 4, 8 or 16.
void launch_read_registers(uint32_t* sink, const std::byte* from, int64_t bytes, int depth,
                           int blocks, Queue queue);

/// Reads all bytes once, into a ring in shared memory, by ptx::cp_async_16(). depth: 8, 16 or 24.
void launch_read_shared(uint32_t* sink, const std::byte* from, int64_t bytes, int depth, int blocks,
                        Queue queue);

/// to[b] = from[b] + 1 by block b: one link of a chain of launches, each of which needs what the
/// one before it wrote.
void launch_link(int32_t* to, const int32_t* from, int blocks, Queue queue);

}  // namespace llm::measure
