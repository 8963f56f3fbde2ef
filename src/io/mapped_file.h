// A whole file mapped read-only, or one that is compiled in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace llm {

class MappedFile {
 public:
  /// Refuses (exit code 2) what isn't a readable regular file, saying what it is instead.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Null for an empty file.
  const std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  MappedFile(const std::byte* data, int64_t size, bool unmap)
      : data_(data), size_(size), unmap_(unmap) {}

  const std::byte* data_;
  int64_t size_;
  bool unmap_;
};

}  // namespace llm
