#include "io/output_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace llm {
namespace fs = std::filesystem;

OutputFile::OutputFile(const fs::path& path) : path_(path), partial_(path) {
  // A device or a pipe (/dev/stdout, /dev/full) has no other name to write under.
  std::error_code ec;
  const fs::file_status there = fs::status(path, ec);
  const bool exists = there.type() == fs::file_type::regular;
  if (exists && fs::is_symlink(path, ec)) partial_ = path_ = fs::canonical(path);  // the link stays
  if (exists || there.type() == fs::file_type::not_found) partial_ += ".partial";
  file_ = std::fopen(partial_.c_str(), "wbe");
  if (file_ == nullptr) fail("{}: can't be written: {}", path_.string(), std::strerror(errno));
  if (exists) fs::permissions(partial_, there.permissions(), ec);  // a private file stays so
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::error_code ec;
  if (partial_ != path_) fs::remove(partial_, ec);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail_write();
}

void OutputFile::commit() {
  if (std::fflush(file_) != 0) fail_write();
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail_write();
  if (partial_ == path_) return;
  std::error_code ec;
  fs::rename(partial_, path_, ec);
  if (ec) fail("{}: can't be renamed to {}: {}", partial_.string(), path_.string(), ec.message());
}

void OutputFile::fail_write() const {
  fail("{}: write error: {}", path_.string(), std::strerror(errno));
}

}  // namespace llm
