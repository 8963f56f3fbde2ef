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
/// 1 GiB (an eighth of the memory at most) meanwhile. Best of several passes.
MachineSpeed measure_machine(ThreadPool& pool, Isa isa);

}  // namespace llm
