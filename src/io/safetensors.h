// Safetensors checkpoints: mapped, and checked before a byte is used.
// Format: https://huggingface.co/docs/safetensors (header length u64 LE, JSON header, data).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"

namespace llm {

/// One .safetensors file, mapped read-only while the object lives.
class SafetensorsFile {
 public:
  struct Entry {
    DType dtype;
    std::vector<int64_t> dims;  // any rank: only tensors that are used must fit a Shape
    const std::byte* data;      // into the mapping, maybe unaligned
    int64_t bytes;
  };

  /// Refuses (exit code 2) whatever breaks the format, naming the file and the tensor, and names
  /// the kind for pointer files of a large-file store, HTML pages, empty and cut files.
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }

 private:
  std::filesystem::path path_;
  std::shared_ptr<const void> mapping_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

/// All tensors of a model folder: model.safetensors, or the shards that
/// model.safetensors.index.json lists.
class Checkpoint {
 public:
  /// Refuses (exit code 2) a missing shard, a tensor that its shard lacks, a tensor twice, an
  /// unsafe file name.
  static Checkpoint open(const std::filesystem::path& model_dir);

  bool contains(std::string_view name) const;
  /// Refuses a missing tensor (naming it) or one with more than Shape::kMaxRank dimensions.
  ConstTensor tensor(std::string_view name) const;
  /// All names, sorted.
  std::vector<std::string> names() const;
  /// The file that holds the tensor, for messages.
  const std::filesystem::path& file_of(std::string_view name) const;
  const std::vector<SafetensorsFile>& files() const { return files_; }
  /// Sum of the bytes of all tensors.
  int64_t total_bytes() const;

 private:
  size_t file_number(std::string_view name) const;

  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t, std::less<>> file_index_;  // tensor name -> index in files_
};

}  // namespace llm
