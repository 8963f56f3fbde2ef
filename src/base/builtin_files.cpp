#include "base/builtin_files.h"

#include <string>

#include "base/embedded.h"

namespace llm {
namespace {

constexpr std::string_view kPrefix = "builtin:";

}  // namespace

std::optional<std::filesystem::path> builtin_folder(std::string_view name) {
  if (!embedded_file("models/" + std::string(name) + "/config.json")) return std::nullopt;
  return std::string(kPrefix).append(name);
}

bool is_builtin_folder(const std::filesystem::path& path) {
  const std::string text = path.string();
  return text.starts_with(kPrefix) && builtin_folder(text.substr(kPrefix.size())).has_value();
}

std::optional<std::string_view> builtin_file(const std::filesystem::path& path) {
  const std::string text = path.string();
  if (!text.starts_with(kPrefix)) return std::nullopt;
  return embedded_file("models/" + text.substr(kPrefix.size()));
}

}  // namespace llm
