// Formats: proc_pid_cgroup(5), proc_pid_mountinfo(5), and the kernel's admin-guide
// cgroup-v1/cpu (scheduler/sched-bwc) and cgroup-v2 (cpu.max).
#include "base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace llm {
namespace {

namespace fs = std::filesystem;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// A mounted hierarchy with a CPU controller.
struct Mount {
  bool v2 = false;
  std::string group;  // the group that is visible at the mount point
  std::string point;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

std::vector<Mount> cpu_mounts(const fs::path& root) {
  std::vector<Mount> mounts;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    // "36 35 98:0 /group /point options [tags ...] - type source super,options"
    const std::vector<std::string> f = split(line, ' ');
    const auto dash = std::find(f.begin(), f.end(), "-");
    if (f.size() < 5 || f.end() - dash < 4) continue;
    const bool v2 = dash[1] == "cgroup2";
    if (v2 || (dash[1] == "cgroup" && contains(split(dash[3], ','), "cpu"))) {
      mounts.push_back({v2, f[3], f[4]});
    }
  }
  return mounts;
}

/// This process's group in the hierarchy, as seen from the hierarchy's top.
std::optional<std::string> own_group(const fs::path& root, bool v2) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    // "4:cpu,cpuacct:/group" or "0::/group"
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (v2 ? controllers.empty() : contains(split(controllers, ','), "cpu")) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

double quota_of_group(const fs::path& group, bool v2) {
  std::string quota;  // microseconds per period, "max" or -1 for none
  double period = 0;
  if (v2) {
    std::ifstream(group / "cpu.max") >> quota >> period;
  } else {
    std::ifstream(group / "cpu.cfs_quota_us") >> quota;
    std::ifstream(group / "cpu.cfs_period_us") >> period;
  }
  double microseconds = 0;
  if (!(std::istringstream(quota) >> microseconds)) return kUnlimited;
  return microseconds > 0 && period > 0 ? microseconds / period : kUnlimited;
}

/// The group's path below the mount point; the point itself where it isn't visible there.
fs::path below_mount(const Mount& mount, const std::string& group) {
  const fs::path relative = fs::path(group).lexically_relative(mount.group);
  const bool outside = relative.empty() || *relative.begin() == ".." || relative == ".";
  return outside ? fs::path() : relative;
}

}  // namespace

double cgroup_cpu_quota(const fs::path& root) {
  double smallest = kUnlimited;
  for (const Mount& mount : cpu_mounts(root)) {
    const std::optional<std::string> group = own_group(root, mount.v2);
    if (!group) continue;
    const fs::path point = root / fs::path(mount.point).relative_path();
    for (fs::path path = below_mount(mount, *group);; path = path.parent_path()) {
      smallest = std::min(smallest, quota_of_group(path.empty() ? point : point / path, mount.v2));
      if (path.empty()) break;
    }
  }
  return smallest;
}

}  // namespace llm
