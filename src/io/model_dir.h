// Where a model's folder is.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/log.h"

namespace llm {

/// The model that a command works on: the one given, else $LLM_MODEL, else the built-in "tiny",
/// which a line on stderr then says.
std::string chosen_model(const std::string& given, const Log& log);

/// The folder of a model: `name_or_path` itself if it is a folder, else, for an alias
/// (io/model_list.h) or hub id Owner/Name, the built-in model or the snapshot in the Hugging Face
/// cache. Refuses (exit code 2) otherwise, with what was tried and what to do; `files` are those
/// that the caller needs in the folder.
std::filesystem::path resolve_model_dir(
    const std::string& name_or_path,
    std::string_view files = "config.json, tokenizer.json and model.safetensors");

}  // namespace llm
