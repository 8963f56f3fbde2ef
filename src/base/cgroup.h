// CPU time that Linux control groups allow this process.
#pragma once

#include <filesystem>

namespace llm {

/// CPUs' worth of time per second: the smallest quota of the process's groups and their parents,
/// versions 1 and 2; infinity where none is set. Reads proc/self and the mounts below `root`, which
/// is "/" except in tests.
double cgroup_cpu_quota(const std::filesystem::path& root);

}  // namespace llm
