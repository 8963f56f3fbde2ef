// A file being written: every write is checked, and it appears under its name only when complete.
#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string_view>

namespace llm {

class OutputFile {
 public:
  /// Writes to PATH.partial until commit(). Fails (exit code 1) when that can't be created.
  explicit OutputFile(const std::filesystem::path& path);
  /// Without commit(): removes the partial file.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Fails (exit code 1) on a write error, a full disk for instance.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

  /// Flushes, closes and renames to the final name. Fails (exit code 1) when any of that does.
  void commit();

 private:
  [[noreturn]] void fail_write() const;

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::FILE* file_ = nullptr;
};

}  // namespace llm
