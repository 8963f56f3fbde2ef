#include "cli/version.h"

#include <fmt/format.h>

#include "backend/cuda.h"
#include "base/cpu_info.h"
#include "base/error.h"

// LLM_VERSION comes from the Makefile.

namespace llm {
namespace {

std::string devices() {
  const std::string cuda = cuda_build();
  return cuda.empty() ? "cpu, shape (no CUDA)" : fmt::format("cpu, cuda ({}), shape", cuda);
}

constexpr const char* kCompiler =
#if defined(__clang__)
    "clang " __clang_version__;
#else
    "g++ " __VERSION__;
#endif

/// The version is what a bug report needs first, so a bad $LLM_CPU_ISA doesn't stop it.
std::string isa_in_use() {
  try {
    return std::string(name_of(choose_isa()));
  } catch (const Error& error) {
    return fmt::format("none ({})", error.what());
  }
}

}  // namespace

std::string compiler_name() { return kCompiler; }

std::string version_number() { return LLM_VERSION; }

std::string version_text() {
  std::string supported;
  for (const Isa isa : supported_isas()) {
    supported += supported.empty() ? "" : ", ";
    supported += name_of(isa);
  }
  return fmt::format(
      "llm {}\ncompiler: {}\ndevices: {}\ncpu: {}\n"
      "instruction sets that this CPU can run: {}\nin use: {}",
      version_number(), kCompiler, devices(), cpu_model_name(), supported, isa_in_use());
}

}  // namespace llm
