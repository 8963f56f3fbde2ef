// Where a model's folder is.
#pragma once

#include <filesystem>
#include <string>

namespace llm {

/// The folder of a model: `name_or_path` itself if it is a folder, else the snapshot in the Hugging
/// Face cache of the alias (io/model_list.h) or hub id Owner/Name. Refuses (exit code 2) otherwise,
/// with what was tried and what to do.
std::filesystem::path resolve_model_dir(const std::string& name_or_path);

}  // namespace llm
