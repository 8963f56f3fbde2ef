// Bits: Intel SDM vol. 2A, CPUID (leaves 1, 7 and 0x80000002-4); vol. 1, 13.3 (XCR0).
#include "base/cpu_info.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace llm {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"generic", "avx2", "avx512", "avx512bf16"};

#if defined(__x86_64__)

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

/// All zero where the CPU has no such leaf.
Registers cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

/// Register states that the operating system saves. Needs OSXSAVE.
uint64_t xcr0() {
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

constexpr bool all_set(uint64_t value, uint64_t mask) { return (value & mask) == mask; }
constexpr uint64_t bit(int i) { return uint64_t{1} << i; }

std::vector<Isa> detect() {
  constexpr uint64_t kFma = bit(12), kOsxsave = bit(27), kAvx = bit(28), kF16c = bit(29);  // 1.ECX
  constexpr uint64_t kYmmState = bit(1) | bit(2);                                          // XCR0
  constexpr uint64_t kZmmState = bit(5) | bit(6) | bit(7);
  constexpr uint64_t kAvx2 = bit(5);                                   // 7.0.EBX
  constexpr uint64_t kAvx512 = bit(16) | bit(17) | bit(30) | bit(31);  // F DQ BW VL
  constexpr uint64_t kAvx512Bf16 = bit(5);                             // 7.1.EAX

  std::vector<Isa> isas = {Isa::kGeneric};
  if (!all_set(cpuid(1).ecx, kFma | kOsxsave | kAvx | kF16c)) return isas;
  const uint64_t states = xcr0();
  const Registers leaf7 = cpuid(7);
  if (!all_set(states, kYmmState) || !all_set(leaf7.ebx, kAvx2)) return isas;
  isas.push_back(Isa::kAvx2);
  if (!all_set(states, kZmmState) || !all_set(leaf7.ebx, kAvx512)) return isas;
  isas.push_back(Isa::kAvx512);
  // EAX of leaf 7 is its highest subleaf.
  if (leaf7.eax < 1 || !all_set(cpuid(7, 1).eax, kAvx512Bf16)) return isas;
  isas.push_back(Isa::kAvx512Bf16);
  return isas;
}

std::string brand_string() {
  std::array<char, 48> text{};
  for (uint32_t i = 0; i < 3; ++i) {
    const Registers r = cpuid(0x80000002u + i);
    std::memcpy(text.data() + 16 * i, &r, 16);
  }
  return {text.data(), strnlen(text.data(), text.size())};
}

#else

std::vector<Isa> detect() { return {Isa::kGeneric}; }
std::string brand_string() { return ""; }

#endif

std::string join_supported() {
  std::string names;
  for (const Isa isa : supported_isas()) {
    if (!names.empty()) names += ", ";
    names += name_of(isa);
  }
  return names;
}

}  // namespace

std::string_view name_of(Isa isa) { return kNames[static_cast<size_t>(isa)]; }

std::span<const Isa> supported_isas() {
  static const std::vector<Isa> isas = detect();
  return isas;
}

Isa choose_isa() {
  const char* wanted = std::getenv("LLM_CPU_ISA");
  if (wanted == nullptr || *wanted == '\0') return supported_isas().back();
  for (const Isa isa : supported_isas()) {
    if (name_of(isa) == wanted) return isa;
  }
  for (const std::string_view name : kNames) {
    if (name == wanted) {
      refuse("LLM_CPU_ISA={}: this CPU ({}) can't run that; it runs {}", wanted, cpu_model_name(),
             join_supported());
    }
  }
  refuse("LLM_CPU_ISA={}: no such instruction set; this CPU runs {}", wanted, join_supported());
}

std::string cpu_model_name() {
  std::string name = brand_string();
  const size_t first = name.find_first_not_of(' ');
  if (first == std::string::npos) return "unknown CPU";
  return name.substr(first, name.find_last_not_of(' ') - first + 1);
}

}  // namespace llm
