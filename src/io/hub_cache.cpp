#include "io/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/error.h"
#include "io/json.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kFolderPrefix = "models--";
constexpr std::string_view kSeparator = "--";

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

bool is_hub_name(std::string_view part) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
  return !part.empty() && part != "." && part != ".." &&
         part.find_first_not_of(kAllowed) == std::string_view::npos;
}

/// The files that hold the snapshot's weights, whether they exist or not.
std::set<std::string> weight_files(const fs::path& snapshot) {
  const fs::path index = snapshot / "model.safetensors.index.json";
  if (fs::exists(snapshot / "model.safetensors") || !fs::exists(index)) {
    return {"model.safetensors"};
  }
  std::set<std::string> files;
  const JsonValue root = read_json_file(index);
  if (const JsonValue* map = root.find("weight_map")) {
    for (const JsonMember& member : map->object) files.insert(member.value.string);
  }
  return files;
}

bool is_complete(const fs::path& snapshot) {
  if (!fs::is_regular_file(snapshot / "config.json")) return false;
  const std::set<std::string> files = weight_files(snapshot);
  return !files.empty() && std::all_of(files.begin(), files.end(), [&](const std::string& file) {
    return fs::is_regular_file(snapshot / file);
  });
}

}  // namespace

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

std::optional<int64_t> free_disk_space(const fs::path& path) {
  std::error_code ec;
  const fs::space_info space = fs::space(nearest_existing(path), ec);
  if (ec) return std::nullopt;
  return static_cast<int64_t>(space.available);
}

fs::path nearest_existing(fs::path path) {
  std::error_code ec;
  while (!fs::exists(path, ec) && path.has_relative_path()) path = path.parent_path();
  return path;
}

bool is_hub_id(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && is_hub_name(text.substr(0, slash)) &&
         is_hub_name(text.substr(slash + 1));
}

std::optional<fs::path> hub_model_folder(std::string_view id) {
  const std::optional<fs::path> cache = hub_cache();
  if (!cache || !is_hub_id(id)) return std::nullopt;
  const size_t slash = id.find('/');
  return *cache / fmt::format("{}{}{}{}", kFolderPrefix, id.substr(0, slash), kSeparator,
                              id.substr(slash + 1));
}

fs::path hub_snapshot(const fs::path& model_folder, const std::string& id) {
  const fs::path ref = model_folder / "refs" / "main";
  if (fs::exists(ref)) {
    std::string revision = read_text_file(ref, 4096);
    revision.erase(revision.find_last_not_of(" \t\r\n") + 1);
    if (!is_hub_name(revision)) {
      refuse("{}: \"{}\" is not the name of a revision", ref.string(), printable(revision));
    }
    const fs::path snapshot = model_folder / "snapshots" / revision;
    if (!fs::is_directory(snapshot)) {
      refuse("{}: the cache has no snapshot {} of {} (incomplete download?)", model_folder.string(),
             revision, id);
    }
    return snapshot;
  }
  std::vector<fs::path> snapshots;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(model_folder / "snapshots", ec)) {
    if (entry.is_directory()) snapshots.push_back(entry.path());
  }
  if (snapshots.empty()) {
    refuse("{}: the download of {} is not complete: `llm get {}` goes on with it",
           model_folder.string(), id, id);
  }
  if (snapshots.size() != 1) {
    refuse("{}: {} snapshots of {} and no refs/main: give the folder of one of them",
           model_folder.string(), snapshots.size(), id);
  }
  return snapshots.front();
}

std::optional<fs::path> installed_snapshot(const std::string& id) {
  try {
    const std::optional<fs::path> folder = hub_model_folder(id);
    if (!folder || !fs::is_directory(*folder)) return std::nullopt;
    const fs::path snapshot = hub_snapshot(*folder, id);
    if (is_complete(snapshot)) return snapshot;
  } catch (const Error&) {                 // a broken ref or index
  } catch (const fs::filesystem_error&) {  // unreadable
  }
  return std::nullopt;
}

std::vector<std::string> cached_hub_ids() {
  std::vector<std::string> ids;
  const std::optional<fs::path> cache = hub_cache();
  if (!cache) return ids;
  std::error_code ec;
  fs::directory_iterator it(*cache, ec);
  for (; !ec && it != fs::directory_iterator(); it.increment(ec)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(kFolderPrefix)) continue;
    // Neither part may hold "--", says the hub.
    const size_t owner = kFolderPrefix.size();
    const size_t split = name.find(kSeparator, owner);
    if (split == std::string::npos) continue;
    const std::string id = fmt::format("{}/{}", name.substr(owner, split - owner),
                                       name.substr(split + kSeparator.size()));
    if (is_hub_id(id)) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace llm
