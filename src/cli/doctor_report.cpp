#include "cli/doctor_report.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "backend/cpu/machine_speed.h"
#include "backend/cuda.h"
#include "base/cgroup.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "cli/output.h"
#include "cli/version.h"
#include "engine/known_answer.h"
#include "engine/memory.h"
#include "io/hub_cache.h"
#include "io/json.h"
#include "io/model_list.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

// ---- Facts ----
DoctorFact fact(std::string key, const std::string& text) {
  return {std::move(key), text, json_quote(text)};
}
DoctorFact yes_no(std::string key, bool yes) {
  return {std::move(key), yes ? "yes" : "no", yes ? "true" : "false"};
}
DoctorFact fact(std::string key, int64_t count) {
  return {std::move(key), std::to_string(count), std::to_string(count)};
}
DoctorFact unknown(std::string key, const std::string& text) {
  return {std::move(key), text, "null"};
}
DoctorFact bytes_fact(std::string key, int64_t bytes) {
  if (bytes == kUnlimitedMemory) return unknown(std::move(key), "not known");
  return {std::move(key), human_bytes(static_cast<double>(bytes)), std::to_string(bytes)};
}
DoctorFact speed_fact(std::string key, double value, const char* unit) {
  return {std::move(key), fmt::format("{:.1f} {}", value, unit), fmt::format("{:.3f}", value)};
}

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

/// For what may hold a secret.
DoctorFact whether_set(const char* name) {
  return fact(name, std::string(variable(name) == nullptr ? "not set" : "set"));
}

// ---- Sections ----
DoctorFact cuda_fact() {
  const std::string build = cuda_build();
  return build.empty() ? unknown("cuda", "no") : fact("cuda", build);
}

DoctorSection build_section() {
  return {"build",
          {fact("version", version_number()), fact("compiler", compiler_name()), cuda_fact()}};
}

/// The instruction set in use; nothing if $LLM_CPU_ISA names none that can be.
std::optional<Isa> isa_in_use(DoctorReport& report) {
  try {
    return choose_isa();
  } catch (const Error& error) {
    report.problems.push_back(error.what());
    return std::nullopt;
  }
}

std::string why_isa(std::optional<Isa> isa) {
  const bool chosen = variable("LLM_CPU_ISA") != nullptr;
  if (!isa) return "none: see the problems";
  return fmt::format("{} ({})", name_of(*isa),
                     chosen ? "LLM_CPU_ISA says so" : "the strongest of these");
}

int64_t allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return ::sysconf(_SC_NPROCESSORS_ONLN);
  return CPU_COUNT(&set);
}

DoctorSection cpu_section(std::optional<Isa> isa, const fs::path& root) {
  std::string names;
  for (const Isa each : supported_isas()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(each));
  }
  DoctorSection section{"cpu", {fact("model", cpu_model_name()), fact("instruction_sets", names)}};
  section.facts.push_back(
      {"in_use", why_isa(isa), isa ? json_quote(name_of(*isa)) : std::string("null")});
  section.facts.push_back(fact("cpus", int64_t{::sysconf(_SC_NPROCESSORS_CONF)}));
  section.facts.push_back(fact("allowed_by_affinity", allowed_cpus()));
  const double quota = cgroup_cpu_quota(root);
  section.facts.push_back(std::isfinite(quota)
                              ? DoctorFact{"cgroup_quota", fmt::format("{:.2f} CPUs", quota),
                                           fmt::format("{:.3f}", quota)}
                              : unknown("cgroup_quota", "none"));
  section.facts.push_back(fact("threads_by_default", int64_t{allowed_threads()}));
  return section;
}

DoctorSection memory_section() {
  const int64_t total = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  return {"memory", {bytes_fact("total", total), bytes_fact("available", available_memory())}};
}

DoctorSection driver_section(const fs::path& root) {
  std::ifstream file(root / "proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  DoctorSection section{
      "gpu", {line.empty() ? unknown("nvidia_driver", "none") : fact("nvidia_driver", line)}};
  CudaSystem cuda = find_cuda();
  for (CudaDevice& device : cuda.devices) open_cuda_device(device);
  if (!cuda.devices.empty()) {
    const std::string cublaslt = cublaslt_version();
    section.facts.push_back(cublaslt.empty() ? unknown("cublaslt", "not found")
                                             : fact("cublaslt", cublaslt));
  }
  if (cuda.devices.empty()) section.facts.push_back(unknown("devices", "none: " + cuda.problem));
  for (const CudaDevice& device : cuda.devices) {
    section.facts.push_back(
        fact(fmt::format("cuda:{}", device.index),
             device.problem.empty()
                 ? fmt::format("{}, {}, {} of {} free", device.name, device.architecture,
                               human_bytes(static_cast<double>(device.free_bytes)),
                               human_bytes(static_cast<double>(device.total_bytes)))
                 : device.problem));
  }
  return section;
}

int64_t bytes_below(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code ec;
  fs::recursive_directory_iterator it(folder, ec);
  for (; !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    std::error_code file_ec;
    // Links in the snapshots lead to the blobs, which are counted as they are.
    if (it->is_symlink(file_ec) || !it->is_regular_file(file_ec)) continue;
    const auto size = it->file_size(file_ec);
    if (!file_ec) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

DoctorSection cache_section() {
  DoctorSection section{"models", {}};
  const std::optional<fs::path> cache = hub_cache();
  if (!cache) {
    section.facts.push_back(unknown("cache", "none: neither HOME nor HF_HOME is set"));
    return section;
  }
  int64_t installed = 0;
  for (const std::string& id : cached_hub_ids()) installed += installed_snapshot(id) ? 1 : 0;
  const fs::path place = nearest_existing(*cache);
  const std::optional<int64_t> disk_free = free_disk_space(*cache);
  section.facts = {
      fact("cache", cache->string()), yes_no("writable", ::access(place.c_str(), W_OK | X_OK) == 0),
      fact("installed", installed), bytes_fact("bytes", bytes_below(*cache)),
      disk_free ? bytes_fact("disk_free", *disk_free) : unknown("disk_free", "not known")};
  return section;
}

DoctorSection environment_section() {
  DoctorSection section{"environment", {}};
  for (const char* name : {"HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE", "https_proxy"}) {
    section.facts.push_back(whether_set(name));
  }
  for (const char* name : {"LLM_CPU_ISA", "LLM_MODEL"}) {
    const char* value = variable(name);
    section.facts.push_back(value == nullptr ? unknown(name, "not set") : fact(name, value));
  }
  return section;
}

/// As setlocale() would decide about characters.
std::string character_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (const char* value = variable(name)) return value;
  }
  return "C";
}

bool is_utf8(std::string locale) {
  std::transform(locale.begin(), locale.end(), locale.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
}

DoctorSection terminal_section() {
  const char* term = variable("TERM");
  const std::string locale = character_locale();
  DoctorSection section{"terminal",
                        {yes_no("stdin_is_terminal", stdin_is_terminal()),
                         yes_no("stdout_is_terminal", stdout_is_terminal()),
                         term == nullptr ? unknown("TERM", "not set") : fact("TERM", term)}};
  winsize size{};
  const bool has_size = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  section.facts.push_back(has_size ? fact("size", fmt::format("{}x{}", size.ws_col, size.ws_row))
                                   : unknown("size", "none"));
  section.facts.push_back(fact("locale", locale));
  section.facts.push_back(yes_no("utf8", is_utf8(locale)));
  return section;
}

DoctorSection speed_section(ThreadPool& pool, Isa isa) {
  const MachineSpeed speed = measure_machine(pool, isa, available_memory());
  DoctorSection section{
      "speed",
      {fact("threads", int64_t{pool.num_threads()}), speed_fact("read_gbs", speed.read_gbs, "GB/s"),
       speed_fact("f32_gflops", speed.f32_gflops, "GFLOP/s")}};
  section.facts.push_back(speed.bf16_gflops > 0
                              ? speed_fact("bf16_gflops", speed.bf16_gflops, "GFLOP/s")
                              : unknown("bf16_gflops", "no such instruction"));
  return section;
}

/// A key for people; names of variables stay as they are.
std::string title(const std::string& key) {
  std::string text = key;
  if (std::isupper(static_cast<unsigned char>(key[0]))) return text;
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

}  // namespace

void add_answers(DoctorReport& report, const std::vector<KnownAnswer>& answers) {
  DoctorSection section{"known_answers", {}};
  for (const KnownAnswer& answer : answers) {
    const std::string hash = fmt::format("{:016x}", answer.hash);
    const bool right = answer.hash == answer.expected;
    section.facts.push_back({std::string(name_of(answer.isa)), hash + (right ? " right" : " WRONG"),
                             fmt::format("{{\"hash\":\"{}\",\"right\":{}}}", hash, right)});
    if (right) continue;
    report.problems.push_back(fmt::format(
        "the logits of instruction set {} have the hash {}, expected {:016x}: answers can't be "
        "trusted. Choose another with LLM_CPU_ISA, check the machine (memory, overclocking), "
        "rebuild with `make clean && make`, and report it with this text if it stays",
        name_of(answer.isa), hash, answer.expected));
  }
  report.sections.push_back(std::move(section));
}

DoctorReport examine(const DoctorOptions& options) {
  DoctorReport report;
  const std::optional<Isa> isa = isa_in_use(report);
  report.sections = {build_section(),   cpu_section(isa, options.root),
                     memory_section(),  driver_section(options.root),
                     cache_section(),   environment_section(),
                     terminal_section()};
  ThreadPool pool(allowed_threads());
  if (isa && options.measure) report.sections.push_back(speed_section(pool, *isa));
  std::vector<KnownAnswer> answers;
  for (const Isa each : supported_isas()) {
    answers.push_back({each, known_answer_hash(pool, each), expected_answer_hash(each)});
  }
  add_answers(report, answers);
  return report;
}

std::string doctor_table(const DoctorReport& report) {
  std::string text;
  for (const DoctorSection& section : report.sections) {
    text += title(section.name) + "\n";
    for (const DoctorFact& fact : section.facts) {
      text += fmt::format("  {:20} {}\n", title(fact.key), fact.text);
    }
  }
  for (const std::string& problem : report.problems) text += "problem: " + problem + "\n";
  return text + (report.problems.empty() ? "all is well\n" : "");
}

std::string doctor_json(const DoctorReport& report) {
  nlohmann::ordered_json object;
  for (const DoctorSection& section : report.sections) {
    nlohmann::ordered_json facts;
    for (const DoctorFact& fact : section.facts) {
      facts[fact.key] = nlohmann::ordered_json::parse(fact.value);
    }
    object[section.name] = std::move(facts);
  }
  object["problems"] = report.problems;
  using Handler = nlohmann::ordered_json::error_handler_t;
  return object.dump(-1, ' ', false, Handler::replace) + "\n";
}

}  // namespace llm
