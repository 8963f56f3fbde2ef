#include "io/model_dir.h"

#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/json.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

/// As huggingface_hub's constants.py finds it; nothing without a home folder.
std::optional<fs::path> hub_cache() {
  if (const auto cache = environment("HF_HUB_CACHE")) return fs::path(*cache);
  if (const auto home = environment("HF_HOME")) return fs::path(*home) / "hub";
  if (const auto cache = environment("XDG_CACHE_HOME")) {
    return fs::path(*cache) / "huggingface" / "hub";
  }
  if (const auto home = environment("HOME")) {
    return fs::path(*home) / ".cache" / "huggingface" / "hub";
  }
  return std::nullopt;
}

bool is_hub_name(std::string_view part) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
  return !part.empty() && part != "." && part != ".." &&
         part.find_first_not_of(kAllowed) == std::string_view::npos;
}

/// "Owner/Name" as "models--Owner--Name"; nothing if the text can't be a hub id.
std::optional<std::string> cache_folder_name(std::string_view id) {
  const size_t slash = id.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view owner = id.substr(0, slash);
  const std::string_view name = id.substr(slash + 1);
  if (!is_hub_name(owner) || !is_hub_name(name)) return std::nullopt;
  return "models--" + std::string(owner) + "--" + std::string(name);
}

/// The snapshot that refs/main names; without that file, the only snapshot there is.
fs::path snapshot_of(const fs::path& repo, const std::string& id) {
  const fs::path ref = repo / "refs" / "main";
  if (fs::exists(ref)) {
    std::string revision = read_text_file(ref, 4096);
    revision.erase(revision.find_last_not_of(" \t\r\n") + 1);
    if (!is_hub_name(revision)) {
      refuse("{}: \"{}\" is not the name of a revision", ref.string(), printable(revision));
    }
    const fs::path snapshot = repo / "snapshots" / revision;
    if (!fs::is_directory(snapshot)) {
      refuse("{}: the cache has no snapshot {} of {} (incomplete download?)", repo.string(),
             revision, id);
    }
    return snapshot;
  }
  std::vector<fs::path> snapshots;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(repo / "snapshots", ec)) {
    if (entry.is_directory()) snapshots.push_back(entry.path());
  }
  if (snapshots.size() != 1) {
    refuse("{}: {} snapshots of {} and no refs/main: give the folder of one of them", repo.string(),
           snapshots.size(), id);
  }
  return snapshots.front();
}

}  // namespace

fs::path resolve_model_dir(const std::string& name_or_path) {
  if (name_or_path.empty()) refuse("the model's name is empty: give a folder or a hub id");
  std::error_code ec;
  const fs::path path(name_or_path);
  if (fs::is_directory(path, ec)) return path;
  const std::string shown = printable(name_or_path);
  if (fs::exists(path, ec)) {
    refuse(
        "{}: is not a folder; a model is a folder with config.json, tokenizer.json and "
        "model.safetensors",
        shown);
  }
  const std::optional<std::string> folder = cache_folder_name(name_or_path);
  if (!folder) {
    refuse(
        "no model \"{}\": there is no such folder, and it is not a hub id Owner/Name; give the "
        "folder that holds config.json and model.safetensors",
        shown);
  }
  const std::optional<fs::path> cache = hub_cache();
  if (!cache) {
    refuse(
        "no model \"{}\": there is no such folder, and without $HOME or $HF_HOME there is no "
        "Hugging Face cache to look in",
        shown);
  }
  const fs::path repo = *cache / *folder;
  if (!fs::is_directory(repo, ec)) {
    refuse(
        "no model \"{}\": there is no such folder, nor {}; download it first (for example "
        "`hf download {}`), or give a folder",
        shown, repo.string(), shown);
  }
  return snapshot_of(repo, shown);
}

}  // namespace llm
