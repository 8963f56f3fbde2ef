// A small model with seeded random weights, whose logits every machine must compute alike.
#pragma once

#include <cstdint>

#include "base/cpu_info.h"
#include "base/thread_pool.h"

namespace llm {

/// Runs the model on an instruction set that this CPU has (prefill over more than one KV split,
/// then single tokens; the instruction set's own `--act auto`, BF16 cache) and returns a hash of
/// the bits of its logits: FNV-1a over their bytes. Takes a few milliseconds.
uint64_t known_answer_hash(ThreadPool& pool, Isa isa);

/// What known_answer_hash() is where all is right. Values change only with the order of
/// accumulation (backend/cpu/matmul.h, row_kernels.h) or this file's model: `llm doctor --json`
/// shows the new ones, on a CPU that runs all instruction sets.
uint64_t expected_answer_hash(Isa isa);

}  // namespace llm
