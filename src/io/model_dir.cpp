#include "io/model_dir.h"

#include <cstdlib>
#include <optional>

#include "base/builtin_files.h"
#include "base/error.h"
#include "base/files.h"
#include "io/hub_cache.h"
#include "io/json.h"
#include "io/model_list.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

constexpr const char* kDefaultModel = "tiny";

/// For an alias or hub id that the cache doesn't have.
[[noreturn]] void refuse_absent(const std::string& name, const ListedModel* listed,
                                const fs::path& folder) {
  if (listed != nullptr) {
    const std::string size =
        listed->bytes ? fmt::format(" ({})", human_bytes(static_cast<double>(*listed->bytes))) : "";
    refuse("{} is not here yet: `llm get {}` downloads it{}", name, name, size);
  }
  const std::optional<std::string> similar = similar_alias(name);
  refuse("no model \"{}\": there is no such folder, nor {}; `llm get {}` downloads it{}", name,
         folder.string(), name, similar ? fmt::format(" (or did you mean {}?)", *similar) : "");
}

[[noreturn]] void refuse_unknown(const std::string& name, std::string_view files) {
  const std::optional<std::string> similar = similar_alias(name);
  refuse(
      "no model \"{}\": there is no such folder, and it is neither a name that `llm models` lists "
      "nor a hub id Owner/Name{}",
      printable(name),
      similar ? fmt::format("; did you mean {}?", *similar)
              : fmt::format("; give the folder that holds {}", files));
}

}  // namespace

std::string chosen_model(const std::string& given, const Log& log) {
  if (!given.empty()) return given;
  const char* name = std::getenv("LLM_MODEL");
  if (name != nullptr && *name != '\0') return name;
  log.info("no model named with -m or $LLM_MODEL: this is the built-in model {}", kDefaultModel);
  return kDefaultModel;
}

fs::path resolve_model_dir(const std::string& name_or_path, std::string_view files) {
  if (name_or_path.empty()) refuse("the model's name is empty: give a folder or a hub id");
  std::error_code ec;
  const fs::path path(name_or_path);
  if (is_folder(path)) return path;
  const ListedModel* listed = find_listed_model(name_or_path);
  const std::string id =
      listed != nullptr && !listed->hub_id.empty() ? listed->hub_id : name_or_path;
  if (listed == nullptr && fs::exists(path, ec)) {
    refuse("{}: is not a folder; expected a folder with {}", printable(name_or_path), files);
  }
  if (const auto builtin = builtin_folder(name_or_path)) return *builtin;
  if (!is_hub_id(id)) refuse_unknown(name_or_path, files);
  const std::optional<fs::path> folder = hub_model_folder(id);
  if (!folder) {
    refuse(
        "no model \"{}\": there is no such folder, and without $HOME or $HF_HOME there is no "
        "Hugging Face cache to look in",
        name_or_path);
  }
  if (!fs::is_directory(*folder, ec)) refuse_absent(name_or_path, listed, *folder);
  return hub_snapshot(*folder, id);
}

}  // namespace llm
