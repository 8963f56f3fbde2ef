// The backend that runs on the host's cores.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "base/cpu_info.h"
#include "base/thread_pool.h"

namespace llm {

/// What `--act auto` means: BF16 where the instruction set multiplies it, else float32.
ActDType default_act(Isa isa);

/// The pool outlives the backend.
std::unique_ptr<Backend> make_cpu_backend(ThreadPool& pool, ActDType act, Isa isa = choose_isa());

}  // namespace llm
