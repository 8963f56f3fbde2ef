#include <doctest/doctest.h>
#include <sched.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/cgroup.h"
#include "base/cpu_info.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "test_data.h"

using namespace llm;

namespace {

namespace fs = std::filesystem;

/// Sets LLM_CPU_ISA while it lives.
class IsaVariable {
 public:
  explicit IsaVariable(const std::string& value) { setenv("LLM_CPU_ISA", value.c_str(), 1); }
  ~IsaVariable() {
    if (was_set_) {
      setenv("LLM_CPU_ISA", before_.c_str(), 1);
    } else {
      unsetenv("LLM_CPU_ISA");
    }
  }

 private:
  bool was_set_ = std::getenv("LLM_CPU_ISA") != nullptr;
  std::string before_ = was_set_ ? std::getenv("LLM_CPU_ISA") : "";
};

/// The kernel's own list of this CPU's features.
std::set<std::string> kernel_flags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

bool has_all(const std::set<std::string>& flags, std::initializer_list<const char*> wanted) {
  for (const char* flag : wanted) {
    if (flags.count(flag) == 0) return false;
  }
  return true;
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

const double kNone = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("cpu_info: agrees with the kernel about instruction sets") {
  const std::set<std::string> flags = kernel_flags();
  std::vector<Isa> expected = {Isa::kGeneric};
  if (has_all(flags, {"avx2", "fma", "f16c"})) {
    expected.push_back(Isa::kAvx2);
    if (has_all(flags, {"avx512f", "avx512bw", "avx512dq", "avx512vl"})) {
      expected.push_back(Isa::kAvx512);
      if (has_all(flags, {"avx512_bf16"})) expected.push_back(Isa::kAvx512Bf16);
    }
  }
  const auto found = supported_isas();
  CHECK(std::vector<Isa>(found.begin(), found.end()) == expected);
  CHECK(!cpu_model_name().empty());
}

TEST_CASE("cpu_info: LLM_CPU_ISA forces any supported set and nothing else") {
  for (const Isa isa : supported_isas()) {
    const IsaVariable variable{std::string(name_of(isa))};
    CHECK(choose_isa() == isa);
  }
  {
    const IsaVariable variable("");
    CHECK(choose_isa() == supported_isas().back());
  }
  for (const char* unknown : {"sse9", "AVX2", "avx2 "}) {
    const IsaVariable variable(unknown);
    try {
      choose_isa();
      FAIL("accepted " << unknown);
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::kRefused);
      CHECK(std::string(e.what()).find("LLM_CPU_ISA") != std::string::npos);
      CHECK(std::string(e.what()).find("generic") != std::string::npos);
    }
  }
}

TEST_CASE("allowed_threads: follows the affinity mask") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
  const int all = allowed_threads();
  CHECK(all >= 1);
  CHECK(all <= CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
  CHECK(allowed_threads() == 1);
  REQUIRE(sched_setaffinity(0, sizeof(before), &before) == 0);
}

TEST_CASE("cgroup v2: the smallest quota on the way up counts") {
  const fs::path root = fresh_test_dir("cgroup2");
  CHECK(cgroup_cpu_quota(root) == kNone);
  write(root / "proc/self/mountinfo",
        "21 1 0:19 / /proc rw - proc proc rw\n"
        "30 1 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  write(root / "proc/self/cgroup", "0::/user/job one/task\n");
  CHECK(cgroup_cpu_quota(root) == kNone);
  const fs::path top = root / "sys/fs/cgroup";
  write(top / "user/job one/task/cpu.max", "max 100000\n");
  CHECK(cgroup_cpu_quota(root) == kNone);
  write(top / "user/job one/cpu.max", "150000 100000\n");
  CHECK(cgroup_cpu_quota(root) == 1.5);
  write(top / "user/cpu.max", "40000 20000\n");
  CHECK(cgroup_cpu_quota(root) == 1.5);
  write(top / "cpu.max", "50000 100000\n");
  CHECK(cgroup_cpu_quota(root) == 0.5);
  for (const char* odd : {"", "garbage\n", "-1 100000\n", "100000 0\n", "100000\n"}) {
    write(top / "cpu.max", odd);
    CHECK(cgroup_cpu_quota(root) == 1.5);
  }
}

TEST_CASE("cgroup v1: quota of the cpu controller, in a container that sees only its own group") {
  const fs::path root = fresh_test_dir("cgroup1");
  write(
      root / "proc/self/mountinfo",
      "40 1 0:30 /box/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
      "41 1 0:31 /box/abc /sys/fs/cgroup/cpu,cpuacct ro master:3 - cgroup cgroup rw,cpu,cpuacct\n");
  write(root / "proc/self/cgroup", "7:memory:/box/abc\n4:cpu,cpuacct:/box/abc/inner\n0::/x\n");
  const fs::path top = root / "sys/fs/cgroup/cpu,cpuacct";
  write(top / "cpu.cfs_quota_us", "300000\n");
  write(top / "cpu.cfs_period_us", "100000\n");
  CHECK(cgroup_cpu_quota(root) == 3.0);
  write(top / "inner/cpu.cfs_quota_us", "-1\n");
  write(top / "inner/cpu.cfs_period_us", "100000\n");
  CHECK(cgroup_cpu_quota(root) == 3.0);
  write(top / "inner/cpu.cfs_quota_us", "25000\n");
  CHECK(cgroup_cpu_quota(root) == 0.25);
  // A group outside of what is mounted: the mount point's own quota is all that can be known.
  write(root / "proc/self/cgroup", "4:cpu,cpuacct:/elsewhere\n");
  CHECK(cgroup_cpu_quota(root) == 3.0);
}
