// Sources: proc_meminfo(5), getrlimit(2), and the kernel's documentation of control groups
// (admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst).
#include "engine/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/size_text.h"

namespace llm {
namespace {

/// Share of the available memory that keys and values may take when no --ctx says how much.
constexpr double kShareForCache = 0.8;

/// The number after `key` in a file of "key value" lines; kUnlimitedMemory if there is none.
int64_t read_field(const std::filesystem::path& path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(key)) continue;
    try {
      return std::stoll(line.substr(key.size()));
    } catch (const std::exception&) {  // no number there ("max"), or beyond 64 bits
      return kUnlimitedMemory;
    }
  }
  return kUnlimitedMemory;
}

int64_t system_available() {
  const int64_t kib = read_field("/proc/meminfo", "MemAvailable:");
  return kib == kUnlimitedMemory ? kUnlimitedMemory : kib * 1024;
}

/// What one control group leaves. Cached file pages don't count: they go when memory is needed.
int64_t group_available(const std::filesystem::path& group, const char* limit_file,
                        const char* usage_file, const char* cache_key) {
  const int64_t limit = read_field(group / limit_file, "");
  const int64_t usage = read_field(group / usage_file, "");
  if (limit == kUnlimitedMemory || usage == kUnlimitedMemory) return kUnlimitedMemory;
  const int64_t cached = read_field(group / "memory.stat", cache_key);
  return std::max<int64_t>(0, limit - usage + (cached == kUnlimitedMemory ? 0 : cached));
}

int64_t cgroup_available() {
  int64_t least = kUnlimitedMemory;
  std::ifstream file("/proc/self/cgroup");
  std::string line;  // "0::/path" (version 2), "4:memory:/path" (version 1)
  while (std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v1 = controllers.find("memory") != std::string::npos;
    if (!v1 && !controllers.empty()) continue;
    const std::filesystem::path root = v1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    std::filesystem::path path = line.substr(second + 1);
    while (true) {  // the group and its parents
      const std::filesystem::path group = root / path.relative_path();
      least = std::min(least, v1 ? group_available(group, "memory.limit_in_bytes",
                                                   "memory.usage_in_bytes", "total_cache ")
                                 : group_available(group, "memory.max", "memory.current", "file "));
      if (!path.has_relative_path()) break;
      path = path.parent_path();
    }
  }
  return least;
}

int64_t address_space_available() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return kUnlimitedMemory;
  const int64_t pages = read_field("/proc/self/statm", "");
  if (pages == kUnlimitedMemory) return kUnlimitedMemory;
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - pages * ::getpagesize());
}

[[noreturn]] void refuse_memory(const std::string& what, int64_t tokens,
                                const ContextRequest& request) {
  const double needed =
      static_cast<double>(tokens) * static_cast<double>(request.kv_bytes_per_token);
  refuse(
      "{} needs {} for keys and values ({} bytes per token), but {} are available: give a smaller "
      "--ctx, or --kv-dtype int8 or fp8 (half of bf16){}",
      what, size_text(static_cast<int64_t>(needed)), request.kv_bytes_per_token,
      size_text(request.available_bytes), request.way_out);
}

int64_t context_from_flag(const ContextRequest& request, const ModelConfig& config,
                          const Log& log) {
  const int64_t ctx = *request.ctx;
  if (ctx > request.available_bytes / request.kv_bytes_per_token) {
    refuse_memory(fmt::format("--ctx {}", ctx), ctx, request);
  }
  if (ctx <= config.max_position_embeddings) return ctx;
  log.warn("--ctx {} is more than the model's maximum: using {}", ctx,
           config.max_position_embeddings);
  return config.max_position_embeddings;
}

int64_t default_context(const ContextRequest& request, const ModelConfig& config) {
  const int64_t maximum = config.max_position_embeddings;
  const int64_t wanted = request.max_tokens < maximum - request.prompt_tokens
                             ? request.prompt_tokens + request.max_tokens
                             : maximum;
  const double share = static_cast<double>(request.available_bytes) * kShareForCache;
  const int64_t fits = static_cast<int64_t>(share) / request.kv_bytes_per_token;
  if (request.prompt_tokens > fits && request.prompt_tokens <= maximum) {
    refuse_memory(fmt::format("a prompt of {} tokens", request.prompt_tokens),
                  request.prompt_tokens, request);
  }
  return std::max<int64_t>(1, std::min(wanted, fits));
}

}  // namespace

int64_t available_memory() {
  return std::min({system_available(), cgroup_available(), address_space_available()});
}

int64_t plan_cache_tokens(int64_t context, int64_t max_num_seqs, int64_t kv_bytes_per_token,
                          int64_t available_bytes) {
  const double share = static_cast<double>(available_bytes) * kShareForCache;
  const double fits = share / static_cast<double>(kv_bytes_per_token);
  const double wanted = static_cast<double>(context) * static_cast<double>(max_num_seqs);
  return std::max(context, static_cast<int64_t>(std::min(wanted, fits)));
}

int64_t plan_context(const ContextRequest& request, const ModelConfig& config, const Log& log) {
  LLM_CHECK(request.kv_bytes_per_token > 0);
  const int64_t context =
      request.ctx ? context_from_flag(request, config, log) : default_context(request, config);
  if (request.prompt_tokens > context) {
    const bool at_maximum = context == config.max_position_embeddings;
    refuse("the prompt has {} tokens, but the context holds {}{}: give a {}shorter prompt",
           request.prompt_tokens, context,
           at_maximum ? " (the model's maximum)" : fmt::format(" (--ctx {})", *request.ctx),
           at_maximum ? "" : "larger --ctx or a ");
  }
  return context;
}

}  // namespace llm
