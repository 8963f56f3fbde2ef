// Reading the files of a model folder, on disk or compiled in (base/builtin_files.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace llm {

bool is_folder(const std::filesystem::path& path);

/// Whether the folder has an entry of this name. A link that leads nowhere counts: it is what an
/// incomplete download leaves, and reading it says so.
bool is_listed(const std::filesystem::path& path);

/// Refuses (exit code 2) unless `path` names a regular file, following links: says whether nothing
/// is there, a link leads nowhere, or it is a folder or something else.
void require_regular_file(const std::filesystem::path& path);

/// A whole file. Refuses (exit code 2) what isn't a regular file, can't be read, or is larger than
/// max_bytes.
std::string read_file(const std::filesystem::path& path, int64_t max_bytes);

/// Gives the whole pages inside this part of a mapped file back to the system, which reads them
/// again where they are used again. Not for memory that was written.
void release_mapped_pages(const std::byte* data, int64_t bytes);

}  // namespace llm
