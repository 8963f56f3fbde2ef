// The built-in models as folders of compiled-in files: "builtin:tiny/config.json" is the embedded
// file models/tiny/config.json. base/files.h and MappedFile read them as they read files on disk.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace llm {

/// The folder "builtin:NAME" of a built-in model; nothing if there is none of that name.
std::optional<std::filesystem::path> builtin_folder(std::string_view name);

bool is_builtin_folder(const std::filesystem::path& path);

/// The bytes of a file in such a folder, which live as long as the program; nothing if there is
/// none.
std::optional<std::string_view> builtin_file(const std::filesystem::path& path);

}  // namespace llm
