// Every instruction that needs inline assembly, each beside its host twin (emu/ptx_host.h has the
// twins of those that a whole warp executes together). Stays at what sm_80 has, so that one source
// serves all architectures; the exceptions say so.
//
// Source: PTX ISA 9.0, sections "Warp-level matrix instructions" (mma.m16n8k16, ldmatrix,
// movmatrix) and "Data movement and conversion instructions" (ld, cp.async).
//
// Fragments, lane l with g = l / 4 and t = l % 4; a register holds two BF16, the lower index low:
//   A [16 m, 16 k]: a[0] (m g, k 2t..2t+1)  a[1] (g+8, 2t..)  a[2] (g, 2t+8..)  a[3] (g+8, 2t+8..)
//   B [16 k, 8 n]:  b[0] (k 2t..2t+1, n g)  b[1] (k 2t+8.., n g)
//   D [16 m, 8 n]:  d[0], d[1] (m g, n 2t, 2t+1)  d[2], d[3] (m g+8, n 2t, 2t+1)
#pragma once

#include "cuda/rt.h"

#ifdef LLM_CUDA_EMU
#include "cuda/emu/ptx_host.h"
#endif

namespace llm::ptx {

#ifndef LLM_CUDA_EMU

/// d += a b, m16n8k16, BF16 in, float32 sums.
__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Four 8x8 matrices of 16-bit elements from shared memory: lane 8 j + i passes the 16-byte aligned
/// address of row i of matrix j; lane l gets (row g, columns 2t, 2t+1) of matrix j in r[j].
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* shared) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// The same, transposed: lane l gets (rows 2t, 2t+1, column g) of matrix j in r[j].
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const void* shared) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// Transposes an 8x8 matrix of 16-bit elements that the warp holds as in ldmatrix.
__device__ __forceinline__ uint32_t movmatrix_trans(uint32_t r) {
  uint32_t out;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(r));
  return out;
}

/// Starts copying 16 bytes from global to shared memory, both 16-byte aligned; only the first
/// `bytes` (0 to 16) are read, the rest becomes 0.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, int bytes = 16) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(address), "l"(global), "r"(bytes)
               : "memory");
}

/// Closes this thread's group of copies.
__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most kPending of this thread's latest groups are unfinished. Other threads see
/// the bytes after a barrier.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" : : "n"(kPending) : "memory");
}

/// 16 bytes of weights, read once, so not kept in L1. Through the coherent path on purpose: ptxas
/// moves loads of the read-only path below the wait for the launch before (griddepcontrol).
__device__ __forceinline__ uint4 load_streamed(const void* global) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(global));
  return v;
}

/// 16 bytes that other blocks read too, kept in L1. Like load_streamed() it stays where the program
/// has it, so that the number of loads under way, and of registers, is the program's choice.
__device__ __forceinline__ uint4 load_cached(const void* global) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(global));
  return v;
}

/// Brings the 128 bytes around an address into L2.
__device__ __forceinline__ void prefetch_l2(const void* global) {
  asm volatile("prefetch.global.L2 [%0];" : : "l"(global));
}

/// Brings a range into L2: 16-byte aligned, a multiple of 16 bytes (sm_90 and later in one request,
/// else line by line).
__device__ __forceinline__ void prefetch_l2_range(const std::byte* global, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" : : "l"(global), "r"(bytes));
#else
  for (uint32_t at = 0; at < bytes; at += 128) prefetch_l2(global + at);
#endif
}

/// 2^x with a relative error of 2^-22; subnormal results become 0, 2^-inf is 0.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// From here on this thread sees what the launch before wrote. Every block of a kernel that
/// overlaps its predecessor calls it, those that leave early too (sm_90 and later, else nothing).
__device__ __forceinline__ void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next launch start as soon as every block has come here (sm_90 and later).
__device__ __forceinline__ void let_successor_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif

}  // namespace llm::ptx
