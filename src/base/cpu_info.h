// What this CPU can do.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace llm {

/// Instruction sets with kernels of their own, weakest first. Each includes the ones before it
/// (kVnni and later: only in what they need).
enum class Isa {
  kGeneric,     // portable C++ for the baseline of the build (x86-64-v2, aarch64)
  kAvx2,        // AVX2, FMA, F16C
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Bf16,  // and BF16 dot products
};

/// "generic", "avx2", "avx512", "avx512bf16".
std::string_view name_of(Isa isa);

/// Every Isa that this CPU and its operating system can run, weakest first.
std::span<const Isa> supported_isas();

/// The strongest supported Isa, or the one that $LLM_CPU_ISA names; refuses (exit code 2) a name
/// that is unknown or that this CPU can't run.
Isa choose_isa();

/// The CPU's own brand string, or "unknown CPU".
std::string cpu_model_name();

}  // namespace llm
