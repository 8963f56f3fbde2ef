// A model folder's tensors, from one safetensors file or from the shards of an index.

#include "base/error.h"
#include "base/files.h"
#include "io/json.h"
#include "io/safetensors.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

void require_folder(const fs::path& dir) {
  if (is_folder(dir)) return;
  std::error_code ec;
  const fs::file_status status = fs::status(dir, ec);
  if (status.type() == fs::file_type::not_found) refuse("{}: no such folder", dir.string());
  refuse("{}: is not a folder; a model is a folder with config.json and {}", dir.string(),
         kSingleFile);
}

[[noreturn]] void refuse_without_weights(const fs::path& dir) {
  std::error_code ec;
  std::string other;
  fs::directory_iterator it(dir, ec);
  if (ec) refuse("{}: the folder can't be read: {}", dir.string(), ec.message());
  for (; it != fs::directory_iterator(); it.increment(ec)) {
    const std::string extension = it->path().extension().string();
    if (extension == ".bin" || extension == ".gguf" || extension == ".pth" || extension == ".pt" ||
        extension == ".safetensors") {
      other = it->path().filename().string();
    }
  }
  refuse("{}: no weights here: expected {}, or {} with its shards{}", dir.string(), kSingleFile,
         kIndexFile,
         other.empty() ? std::string()
                       : fmt::format(" (found {}, which can't be loaded in their place)", other));
}

/// A shard's name must stay inside the folder.
void require_plain_name(const std::string& name, const std::string& tensor,
                        const std::string& origin) {
  const bool plain = !name.empty() && name != "." && name != ".." &&
                     name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (!plain) {
    refuse("{}: tensor \"{}\": \"{}\" is not a plain file name", origin, printable(tensor),
           printable(name));
  }
}

/// The index as tensor name -> file name.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const JsonValue index = read_json_file(path);
  const JsonValue* weight_map = index.find("weight_map");
  if (weight_map == nullptr || !weight_map->is_object()) {
    refuse("{}: expected an object with the object \"weight_map\"", path.string());
  }
  if (weight_map->object.empty()) refuse("{}: \"weight_map\" lists no tensor", path.string());
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : weight_map->object) {
    if (!file.is_string()) {
      refuse("{}: tensor \"{}\": the file name is {}, expected a string", path.string(),
             printable(tensor), describe(file));
    }
    require_plain_name(file.string, tensor, path.string());
    files.emplace(tensor, file.string);
  }
  return files;
}

}  // namespace

Checkpoint Checkpoint::open(const fs::path& model_dir) {
  require_folder(model_dir);
  Checkpoint checkpoint;
  std::map<std::string, std::string> index;
  std::map<std::string, size_t> shards;  // file name -> index in files_
  const auto add_file = [&](const std::string& name) {
    shards.emplace(name, checkpoint.files_.size());
    checkpoint.files_.push_back(SafetensorsFile::open(model_dir / name));
  };
  if (is_listed(model_dir / kSingleFile)) {
    add_file(kSingleFile);
  } else if (is_listed(model_dir / kIndexFile)) {
    index = read_index(model_dir / kIndexFile);
    for (const auto& [tensor, file] : index) {
      if (shards.count(file) != 0) continue;
      if (!is_listed(model_dir / file)) {
        refuse("{}: the shard {} that {} lists is missing (incomplete download?)",
               model_dir.string(), printable(file), kIndexFile);
      }
      add_file(file);
    }
  } else {
    refuse_without_weights(model_dir);
  }

  for (size_t i = 0; i < checkpoint.files_.size(); ++i) {
    for (const auto& [name, entry] : checkpoint.files_[i].entries()) {
      const auto [it, is_new] = checkpoint.file_index_.emplace(name, i);
      if (!is_new) {
        refuse("{}: tensor \"{}\" is in {} and in {}", model_dir.string(), printable(name),
               checkpoint.files_[it->second].path().filename().string(),
               checkpoint.files_[i].path().filename().string());
      }
    }
  }
  for (const auto& [tensor, file] : index) {
    const auto it = checkpoint.file_index_.find(tensor);
    if (it == checkpoint.file_index_.end() || it->second != shards.at(file)) {
      refuse("{}: tensor \"{}\" is not in {}, where {} says it is", model_dir.string(),
             printable(tensor), file, kIndexFile);
    }
  }
  return checkpoint;
}

bool Checkpoint::contains(std::string_view name) const {
  return file_index_.find(name) != file_index_.end();
}

ConstTensor Checkpoint::tensor(std::string_view name) const {
  const SafetensorsFile& file = files_[file_number(name)];
  const SafetensorsFile::Entry& entry = file.entries().find(name)->second;
  if (entry.dims.size() > Shape::kMaxRank) {
    refuse("{}: tensor \"{}\" has {} dimensions, at most {} can be used", file.path().string(),
           printable(name), entry.dims.size(), Shape::kMaxRank);
  }
  return {entry.data, entry.dtype, Shape(std::span<const int64_t>(entry.dims))};
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  names.reserve(file_index_.size());
  for (const auto& [name, file] : file_index_) names.push_back(name);
  return names;
}

const fs::path& Checkpoint::file_of(std::string_view name) const {
  return files_[file_number(name)].path();
}

int64_t Checkpoint::total_bytes() const {
  int64_t total = 0;
  for (const SafetensorsFile& file : files_) {
    for (const auto& [name, entry] : file.entries()) total += entry.bytes;
  }
  return total;
}

size_t Checkpoint::file_number(std::string_view name) const {
  const auto it = file_index_.find(name);
  if (it == file_index_.end()) {
    refuse("{}: the checkpoint has no tensor \"{}\"", files_.front().path().parent_path().string(),
           printable(name));
  }
  return it->second;
}

}  // namespace llm
