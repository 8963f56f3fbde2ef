// The Hugging Face cache: models--Owner--Name/{blobs,refs,snapshots}, as huggingface_hub lays it
// out. Here it is read; scripts/download_model.sh writes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

/// $HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub, as
/// huggingface_hub's constants.py has it; nothing without a home folder.
std::optional<std::filesystem::path> hub_cache();

/// Bytes free where the path is, or will be once its folders are made; nothing where that isn't
/// known.
std::optional<int64_t> free_disk_space(const std::filesystem::path& path);

/// The path itself, or the nearest folder above it that is there.
std::filesystem::path nearest_existing(std::filesystem::path path);

/// Whether the text has the form Owner/Name.
bool is_hub_id(std::string_view text);

/// The model's folder in the cache, whether it exists or not; nothing for what is no hub id, and
/// without a cache.
std::optional<std::filesystem::path> hub_model_folder(std::string_view id);

/// The snapshot that refs/main names; without that file, the only snapshot there is. Refuses (exit
/// code 2) a model folder without one, naming `id`.
std::filesystem::path hub_snapshot(const std::filesystem::path& model_folder,
                                   const std::string& id);

/// The snapshot of an installed model: config.json and all the weights that it or its index names
/// are there. Nothing otherwise; never throws for what is in the cache.
std::optional<std::filesystem::path> installed_snapshot(const std::string& id);

/// Hub ids of the models that the cache has a folder for, ascending.
std::vector<std::string> cached_hub_ids();

}  // namespace llm
