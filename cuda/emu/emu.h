// The emulator that runs kernels on a CPU, as cuda/rt.h includes it: CUDA's names for device code
// and this side of the macros of rt.h.
//
// How it works: each CUDA thread is a fiber (thread.h, block_runner.h); settings.h says in which
// order threads run and what was found wrong; device.h and runtime_*.cpp stand in for the CUDA
// runtime, with the prototypes of the real headers.
#pragma once

#include "cuda/emu/atomics.h"
#include "cuda/emu/intrinsics.h"
#include "cuda/emu/launch.h"
#include "cuda/emu/thread.h"
#include "cuda/emu/warp.h"

// Hints for nvcc that a host compiler doesn't know.
#undef __launch_bounds__
#undef __cluster_dims__
#define __launch_bounds__(...)
#define __cluster_dims__(...)

#define threadIdx (::llm::emu::self->thread_index)
#define blockIdx (::llm::emu::self->block->block_index)
#define blockDim (::llm::emu::self->block->block_dim)
#define gridDim (::llm::emu::self->block->grid_dim)

// The array is found by the address of a tag, which each template instance has its own of.
#define LLM_SHARED(type, name, extents)                                    \
  static const char name##_tag = 0;                                        \
  using name##_type = type extents;                                        \
  name##_type& name = *static_cast<name##_type*>(::llm::emu::shared_array( \
      &name##_tag, #name, sizeof(name##_type), alignof(name##_type), {__FILE__, __LINE__}))
#define LLM_DYN_SHARED(type, name) \
  type* const name = static_cast<type*>(::llm::emu::dynamic_shared())

#define LLM_LAUNCH(config, kernel, ...) \
  ::llm::launch(#kernel, kernel, (config)__VA_OPT__(, ) __VA_ARGS__)
