// What `llm --version` says.
#pragma once

#include <string>

namespace llm {

/// The compiler of this build and its version.
std::string compiler_name();

/// Of this build, from git.
std::string version_number();

/// Version, compiler, CUDA state, instruction sets in the build and in use, one a line.
std::string version_text();

}  // namespace llm
