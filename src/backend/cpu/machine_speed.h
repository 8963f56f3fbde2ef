// What this machine can do at most: the yardstick of bench.
#pragma once

#include "base/cpu_info.h"
#include "base/thread_pool.h"

namespace llm {

struct MachineSpeed {
  double read_gbs = 0;     // 1e9 bytes read per second from memory, all threads together
  double f32_gflops = 0;   // float32 multiply-adds on registers, 2 FLOP each
  double bf16_gflops = 0;  // BF16 dot products on registers; 0 without such an instruction
};

/// Measures with all threads of the pool and the vectors of `isa`; takes about a second and up to
/// 1 GiB (an eighth of `available_bytes` at most) meanwhile. Best of several passes. With less than
/// 512 MiB the bandwidth stays 0: of a smaller block the caches would deliver too much.
MachineSpeed measure_machine(ThreadPool& pool, Isa isa, int64_t available_bytes);

}  // namespace llm
